//! Addresses of model servers: which may be named at all. Pure; resolving a name is for others.

use bxcore::net::{is_own_network, is_unusable};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The longest address that is looked at, in bytes.
const MAX_URL_BYTES: usize = 512;

/// The base address of a model server, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendUrl {
    host: Host,
    port: u16,
    path: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Host {
    Ip(IpAddr),
    Name(String),
}

/// Why an address can't be a backend's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// It is not an address of the web at all.
    #[error("it is not an address of the form http://HOST:PORT")]
    Malformed,
    /// It wants TLS.
    #[error("only http:// is spoken to a local server, not https://")]
    Tls,
    /// It carries a name and password, a query or a fragment.
    #[error("an address with a password, a query or a fragment can't be used")]
    Extras,
    /// It means this very link, or nothing that could be called.
    #[error("it is a link-local or unspecified address, behind which no model server can be named")]
    Unusable,
    /// It is outside of this box and the owner's network.
    #[error("it is a public address, not on this box or in a private network")]
    Public,
}

impl BackendUrl {
    /// Reads a base address; a `/v1` at its end is dropped.
    ///
    /// An address given as a number must be on loopback or private (RFC 1918, RFC 4193). A name is
    /// judged after it was resolved, by [`bxcore::net::is_own_network`].
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let text = text.trim();
        if text.len() > MAX_URL_BYTES
            || text.contains(|c: char| c.is_whitespace() || c.is_control())
        {
            return Err(AddressError::Malformed);
        }
        let rest = match text.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => rest,
            Some((scheme, _)) if scheme.eq_ignore_ascii_case("https") => {
                return Err(AddressError::Tls);
            }
            _ => return Err(AddressError::Malformed),
        };
        if rest.contains(['@', '?', '#', '\\']) {
            return Err(AddressError::Extras);
        }
        let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        let (host, port) = split_port(authority)?;
        Ok(Self {
            host: read_host(host)?,
            port,
            path: base_path(path),
        })
    }

    /// The address of a server at a port of this box.
    pub fn loopback(port: u16) -> Self {
        Self {
            host: Host::Ip(Ipv4Addr::LOCALHOST.into()),
            port,
            path: String::new(),
        }
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What the `host` header says.
    pub fn authority(&self) -> String {
        match &self.host {
            Host::Ip(IpAddr::V6(ip)) => format!("[{ip}]:{}", self.port),
            Host::Ip(ip) => format!("{ip}:{}", self.port),
            Host::Name(name) => format!("{name}:{}", self.port),
        }
    }

    /// The path in front of the server's own routes, without a slash at its end.
    pub fn base_path(&self) -> &str {
        &self.path
    }

    /// The number, where the address is one.
    pub fn ip(&self) -> Option<IpAddr> {
        match self.host {
            Host::Ip(ip) => Some(ip),
            Host::Name(_) => None,
        }
    }

    /// The name to resolve, where the address has one.
    pub fn host_name(&self) -> Option<&str> {
        match &self.host {
            Host::Ip(_) => None,
            Host::Name(name) => Some(name),
        }
    }
}

impl fmt::Display for BackendUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.authority(), self.path)
    }
}

fn split_port(authority: &str) -> Result<(&str, u16), AddressError> {
    let after_host = authority.rfind(']').map_or(0, |at| at + 1);
    let Some(colon) = authority[after_host..].rfind(':') else {
        return Ok((authority, 80));
    };
    let (host, port) = authority.split_at(after_host + colon);
    match port[1..].parse() {
        Ok(port) if port > 0 => Ok((host, port)),
        _ => Err(AddressError::Malformed),
    }
}

fn read_host(host: &str) -> Result<Host, AddressError> {
    if let Some(inner) = host.strip_prefix('[') {
        let ip: Ipv6Addr = inner
            .strip_suffix(']')
            .and_then(|inner| inner.parse().ok())
            .ok_or(AddressError::Malformed)?;
        return own(ip.into());
    }
    if let Ok(ip) = host.parse::<Ipv4Addr>() {
        return own(ip.into());
    }
    let named = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
    // A last label of digits would be read as a number in some other notation (`127.1`, `0x7f.1`).
    let last = host.trim_end_matches('.').rsplit('.').next().unwrap_or("");
    let numeric = last.starts_with(|c: char| c.is_ascii_digit());
    if host.is_empty() || last.is_empty() || numeric || !host.bytes().all(named) {
        return Err(AddressError::Malformed);
    }
    Ok(Host::Name(host.to_ascii_lowercase()))
}

fn own(ip: IpAddr) -> Result<Host, AddressError> {
    if is_unusable(ip) {
        Err(AddressError::Unusable)
    } else if is_own_network(ip) {
        Ok(Host::Ip(ip))
    } else {
        Err(AddressError::Public)
    }
}

fn base_path(path: &str) -> String {
    let path = path.trim_end_matches('/');
    path.strip_suffix("/v1").unwrap_or(path).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn addresses_of_the_own_network_are_taken_apart() {
        let check = |text: &str, shown: &str| {
            let url = BackendUrl::parse(text).unwrap();
            assert_eq!(url.to_string(), shown, "{text}");
        };
        check("http://127.0.0.1:8080", "http://127.0.0.1:8080");
        check("HTTP://127.0.0.1:8080/", "http://127.0.0.1:8080");
        check("http://localhost:11434/v1/", "http://localhost:11434");
        check("http://10.1.2.3/llm/v1", "http://10.1.2.3:80/llm");
        check("http://172.31.0.1:1", "http://172.31.0.1:1");
        check("http://192.168.1.9:65535", "http://192.168.1.9:65535");
        check("http://[::1]:8080", "http://[::1]:8080");
        check("http://[fd00::5]", "http://[fd00::5]:80");
        check("http://GPU-box.lan:8000", "http://gpu-box.lan:8000");
    }

    #[test]
    fn all_others_are_refused_with_the_reason() {
        let check = |text: &str, expect: AddressError| {
            assert_eq!(BackendUrl::parse(text), Err(expect), "{text}");
        };
        check("https://127.0.0.1:8080", AddressError::Tls);
        check("http://8.8.8.8", AddressError::Public);
        check("http://0.0.0.0:80", AddressError::Unusable);
        check("http://[::]:80", AddressError::Unusable);
        check("http://169.254.169.254", AddressError::Unusable);
        check("http://169.254.7.7:9", AddressError::Unusable);
        check("http://[fe80::5]:8", AddressError::Unusable);
        check("http://[::ffff:169.254.169.254]:80", AddressError::Unusable);
        check("http://172.32.0.1:80", AddressError::Public);
        check("http://100.64.0.1:80", AddressError::Public);
        check("http://[2001:db8::1]:80", AddressError::Public);
        check("http://[::ffff:8.8.8.8]:80", AddressError::Public);
        check("http://a@127.0.0.1:80", AddressError::Extras);
        check("http://127.0.0.1:80?x", AddressError::Extras);
        check("http://127.0.0.1:80#x", AddressError::Extras);
        check("http://127.0.0.1\\@evil.test", AddressError::Extras);
        for text in [
            "",
            "127.0.0.1:8080",
            "ftp://127.0.0.1",
            "http://",
            "http://:80",
            "http://127.0.0.1:0",
            "http://127.0.0.1:65536",
            "http://127.1:80",
            "http://0x7f.1",
            "http://2130706433",
            "http://[::1",
            "http://a b",
            "http://a\tb",
            "http://ä:1",
            "http://.",
            "unix:/x",
        ] {
            check(text, AddressError::Malformed);
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_reads_the_same(text in "http://(10\\.0\\.0\\.[1-9]|\\[::1\\]|[a-z]{1,5}(\\.[a-z]{1,4})?)(:[1-9][0-9]{0,3})?(/[a-z]{1,3}){0,2}/?") {
            let url = BackendUrl::parse(&text).unwrap();
            prop_assert_eq!(BackendUrl::parse(&url.to_string()), Ok(url));
        }

        #[test]
        fn nothing_panics(text in "\\PC{0,40}") {
            let _ = BackendUrl::parse(&text);
            let _ = BackendUrl::parse(&format!("http://{text}"));
        }
    }
}
