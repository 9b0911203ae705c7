//! An address of the web, the one reader of them: of those that a model or a page writes, and of those
//! in the configuration. Pure and strict: what two programs could read in two ways is refused, so that
//! nobody else's reading matters.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The longest address, in bytes.
pub const MAX_URL_BYTES: usize = 4096;
const MAX_HOST_BYTES: usize = 253;
const MAX_LABEL_BYTES: usize = 63;

/// How a page is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    Http,
    Https,
}

impl Scheme {
    const fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// A host: a name, or an address written out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Host {
    Name(String),
    Ip(IpAddr),
}

/// An address that may be asked for as far as its text can tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub(crate) scheme: Scheme,
    pub(crate) host: Host,
    pub(crate) port: u16,
    /// Path and query, in ASCII, beginning with `/`.
    pub(crate) path: String,
}

/// Why a text is no such address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// It is too long.
    #[error("the address is longer than {MAX_URL_BYTES} bytes")]
    TooLong,
    /// It holds blanks, control characters or backslashes.
    #[error("the address holds a blank, a control character or a backslash")]
    Characters,
    /// Its scheme is neither http nor https.
    #[error("only addresses that begin with http:// or https:// can be fetched")]
    Scheme,
    /// It carries a user name or password.
    #[error("an address with a user name or a password can't be fetched")]
    User,
    /// Its host is neither a name nor an address in the usual form.
    #[error(
        "its host is neither a name such as `example.org` nor an address such as `192.0.2.1` or `[2001:db8::1]`"
    )]
    Host,
    /// Its port is no number from 1 to 65535.
    #[error("its port is not a number from 1 to 65535")]
    Port,
}

impl Target {
    /// Reads an address; a fragment is left out, since it is never sent.
    ///
    /// # Errors
    /// It is none that may be fetched, whatever it leads to.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        check_text(text)?;
        let (scheme, rest) = text.split_once("://").ok_or(UrlError::Scheme)?;
        let scheme = match scheme {
            scheme if scheme.eq_ignore_ascii_case("http") => Scheme::Http,
            scheme if scheme.eq_ignore_ascii_case("https") => Scheme::Https,
            _ => return Err(UrlError::Scheme),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.contains('@') {
            return Err(UrlError::User);
        }
        let (host, port) = split_port(authority)?;
        Ok(Self {
            scheme,
            host: read_host(host)?,
            port: port.unwrap_or(scheme.port()),
            path: sent_path(path),
        })
    }

    /// Whether it is spoken to through TLS.
    pub fn is_tls(&self) -> bool {
        self.scheme == Scheme::Https
    }

    /// The host, in lower case; an IPv6 address without brackets.
    pub fn host(&self) -> String {
        match &self.host {
            Host::Name(name) => name.clone(),
            Host::Ip(ip) => ip.to_string(),
        }
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Path and query, as they are sent.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The number, where the host is one.
    pub fn ip(&self) -> Option<IpAddr> {
        match &self.host {
            Host::Name(_) => None,
            Host::Ip(ip) => Some(*ip),
        }
    }

    /// Whether the port is the one that goes without saying.
    pub(crate) fn has_usual_port(&self) -> bool {
        [Scheme::Http.port(), Scheme::Https.port()].contains(&self.port)
    }

    /// What the `host` header says.
    pub fn authority(&self) -> String {
        let host = match &self.host {
            Host::Name(name) => name.clone(),
            Host::Ip(IpAddr::V4(ip)) => ip.to_string(),
            Host::Ip(IpAddr::V6(ip)) => format!("[{ip}]"),
        };
        if self.port == self.scheme.port() {
            host
        } else {
            format!("{host}:{}", self.port)
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls() { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.path)
    }
}

/// What holds for every address and every redirect, before anything of it is read.
pub(crate) fn check_text(text: &str) -> Result<(), UrlError> {
    if text.len() > MAX_URL_BYTES {
        return Err(UrlError::TooLong);
    }
    let is_odd = |c: char| c.is_whitespace() || c.is_control() || c == '\\';
    if text.contains(is_odd) {
        return Err(UrlError::Characters);
    }
    Ok(())
}

fn split_port(authority: &str) -> Result<(&str, Option<u16>), UrlError> {
    let after_bracket = authority.rfind(']').map_or(0, |at| at + 1);
    let Some(colon) = authority[after_bracket..].find(':') else {
        return Ok((authority, None));
    };
    let (host, port) = authority.split_at(after_bracket + colon);
    let digits = &port[1..];
    let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    match digits.parse() {
        Ok(port) if is_number && port > 0 => Ok((host, Some(port))),
        _ => Err(UrlError::Port),
    }
}

fn read_host(text: &str) -> Result<Host, UrlError> {
    if let Some(inner) = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'))
    {
        let ip: Ipv6Addr = inner.parse().map_err(|_| UrlError::Host)?;
        return Ok(Host::Ip(ip.into()));
    }
    let last = text.rsplit('.').next().unwrap_or_default();
    // Some programs read 0x7f.1, 017700000001 and 2130706433 as addresses. We read four plain
    // numbers and nothing else that could be meant as one.
    let is_numeric = last.bytes().all(|b| b.is_ascii_digit())
        || last.starts_with("0x")
        || last.starts_with("0X");
    if is_numeric {
        let ip: Ipv4Addr = text.parse().map_err(|_| UrlError::Host)?;
        return Ok(Host::Ip(ip.into()));
    }
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    let is_label =
        |label: &str| (1..=MAX_LABEL_BYTES).contains(&label.len()) && label.bytes().all(allowed);
    if text.len() > MAX_HOST_BYTES || !text.split('.').all(is_label) {
        return Err(UrlError::Host);
    }
    Ok(Host::Name(text.to_ascii_lowercase()))
}

/// Path and query without the fragment; what is not ASCII is written as `%XX`.
pub(crate) fn sent_path(text: &str) -> String {
    let text = text.split('#').next().unwrap_or_default();
    let mut path = String::with_capacity(text.len() + 1);
    if !text.starts_with('/') {
        path.push('/');
    }
    for byte in text.bytes() {
        if byte.is_ascii_graphic() {
            path.push(char::from(byte));
        } else {
            path.push_str(&format!("%{byte:02X}"));
        }
    }
    path
}
