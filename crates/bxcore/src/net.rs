//! Which network addresses are the owner's own. Pure: nothing is resolved here.

use std::net::IpAddr;

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

#[cfg(test)]
mod tests {
    use super::*;

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
