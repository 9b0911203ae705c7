//! Which network addresses are the owner's own, and which are the public network's. Pure: nothing
//! is resolved here.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether an address is on this box or in a network that is not the public one.
pub fn is_own_network(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => ip.is_loopback() || ip.is_private(),
        IpAddr::V6(ip) => ip.is_loopback() || ip.is_unique_local(),
    }
}

/// Whether an address can't be a server's: link-local ones are where clouds serve their machines'
/// secrets, and in IPv6 mean nothing without an interface; an unspecified one is no place at all.
pub fn is_unusable(ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    ip.is_unspecified()
        || match ip {
            IpAddr::V4(ip) => ip.is_link_local(),
            IpAddr::V6(ip) => ip.is_unicast_link_local(),
        }
}

/// Networks of IPv4 that are not the public one, by first address and length of the prefix: the
/// special purposes that IANA registers, and everything from multicast up.
const NOT_GLOBAL_V4: &[([u8; 4], u32)] = &[
    ([0, 0, 0, 0], 8),
    ([10, 0, 0, 0], 8),
    ([100, 64, 0, 0], 10),
    ([127, 0, 0, 0], 8),
    ([169, 254, 0, 0], 16),
    ([172, 16, 0, 0], 12),
    ([192, 0, 0, 0], 24),
    ([192, 0, 2, 0], 24),
    ([192, 88, 99, 0], 24),
    ([192, 168, 0, 0], 16),
    ([198, 18, 0, 0], 15),
    ([198, 51, 100, 0], 24),
    ([203, 0, 113, 0], 24),
    ([224, 0, 0, 0], 3),
];

/// The one network of IPv6 that addresses of the public network are given out from.
const GLOBAL_V6: ([u16; 2], u32) = ([0x2000, 0], 3);

/// What is not the public network within [`GLOBAL_V6`]: protocol assignments (Teredo among them),
/// documentation, and 6to4, which leads to an IPv4 address that nobody has looked at.
const NOT_GLOBAL_V6: &[([u16; 2], u32)] = &[
    ([0x2001, 0], 23),
    ([0x2001, 0xdb8], 32),
    ([0x2002, 0], 16),
    ([0x3fff, 0], 20),
];

/// Whether an address is one of the public network, so that nothing of the owner's can be there.
///
/// An IPv4 address within an IPv6 one is judged by itself where it is mapped; translated forms
/// (6to4, NAT64, Teredo, IPv4-compatible) are refused whatever they lead to.
pub fn is_global(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => !NOT_GLOBAL_V4
            .iter()
            .any(|(first, length)| same_prefix(ip.to_bits(), Ipv4Addr::from(*first), *length)),
        IpAddr::V6(ip) => {
            let within = |(first, length): &([u16; 2], u32)| {
                let first = (u32::from(first[0]) << 16) | u32::from(first[1]);
                same_prefix(leading(ip), Ipv4Addr::from_bits(first), *length)
            };
            within(&GLOBAL_V6) && !NOT_GLOBAL_V6.iter().any(within)
        }
    }
}

/// The first 32 bits of an address: no prefix above is longer.
fn leading(ip: Ipv6Addr) -> u32 {
    let [first, second, ..] = ip.segments();
    (u32::from(first) << 16) | u32::from(second)
}

fn same_prefix(bits: u32, first: Ipv4Addr, length: u32) -> bool {
    (bits ^ first.to_bits()).leading_zeros() >= length
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_the_public_network_is_not_global() {
        for text in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.0",
            "10.255.255.255",
            "100.64.0.0",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "172.16.0.0",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.0.170",
            "192.0.2.7",
            "192.88.99.1",
            "192.168.0.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.1",
            "203.0.113.9",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::8.8.8.8",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::808:808",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:0:7f00:1::",
            "2001:1ff:ffff::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "2002:808:808::1",
            "3fff::1",
            "3fff:fff::1",
            "fc00::1",
            "fd00::5",
            "fdff::1",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "ff02::1",
            "5f00::1",
            "4000::1",
        ] {
            assert!(!is_global(text.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn the_neighbours_of_what_is_refused_are_global() {
        for text in [
            "1.0.0.0",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "191.255.255.255",
            "192.0.1.0",
            "192.0.3.0",
            "192.88.98.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "198.51.99.0",
            "203.0.114.0",
            "223.255.255.255",
            "8.8.8.8",
            "::ffff:8.8.8.8",
            "2000::1",
            "2001:200::1",
            "2001:db7::1",
            "2001:db9::1",
            "2003::1",
            "2606:4700::1111",
            "3fff:1000::1",
            "3ffe::1",
        ] {
            assert!(is_global(text.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn an_address_of_the_link_or_of_nothing_is_no_servers() {
        let check = |text: &str, expect: bool| {
            assert_eq!(is_unusable(text.parse().unwrap()), expect, "{text}");
        };
        check("169.254.169.254", true);
        check("::ffff:169.254.169.254", true);
        check("fe80::5", true);
        check("0.0.0.0", true);
        check("::", true);
        check("127.0.0.1", false);
        check("8.8.8.8", false);
    }

    #[test]
    fn the_public_network_is_not_the_owners() {
        let check = |text: &str, expect: bool| {
            assert_eq!(is_own_network(text.parse().unwrap()), expect, "{text}");
        };
        check("127.0.0.1", true);
        check("10.1.2.3", true);
        check("192.168.0.9", true);
        check("169.254.7.7", false);
        check("::1", true);
        check("fd00::5", true);
        check("fe80::5", false);
        check("1.1.1.1", false);
        check("100.64.0.1", false);
        check("0.0.0.0", false);
        check("2001:db8::1", false);
        check("::ffff:8.8.8.8", false);
    }
}
