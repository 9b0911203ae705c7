//! Where a configured request goes. Pure; names are looked up when it is made.

use super::target::{Target, UrlError};
use serde::Deserialize;
use std::fmt;
use std::net::IpAddr;

/// An `https` address, or an `http` one on this very box.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Endpoint {
    target: Target,
    host: String,
}

/// Why an address can't be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// It is no address of the web.
    #[error("it is not an address of the form https://HOST/PATH")]
    Malformed,
    /// It carries a name and password, or a fragment.
    #[error("an address with a user name, a password or a fragment can't be used")]
    Extras,
    /// Without TLS everybody on the way could read it.
    #[error(
        "http:// is for this box alone (127.0.0.1, [::1], localhost); anything else needs https://"
    )]
    Open,
}

impl Endpoint {
    /// Reads an address.
    ///
    /// # Errors
    /// It is no address, has parts that would be void or leak, or would be spoken to in the open.
    pub fn parse(text: &str) -> Result<Self, EndpointError> {
        // A page's address may have a fragment, which is left out; in a configuration it is a slip.
        if text.contains(['#', '@']) {
            return Err(EndpointError::Extras);
        }
        let target = Target::parse(text).map_err(|error| match error {
            UrlError::User => EndpointError::Extras,
            _ => EndpointError::Malformed,
        })?;
        let endpoint = Self {
            host: target.host(),
            target,
        };
        if !endpoint.is_tls() && !endpoint.is_local() {
            return Err(EndpointError::Open);
        }
        Ok(endpoint)
    }

    /// Whether it is spoken to through TLS.
    pub fn is_tls(&self) -> bool {
        self.target.is_tls()
    }

    /// The host, in lower case and without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.target.port()
    }

    /// Path and query.
    pub fn path(&self) -> &str {
        self.target.path()
    }

    /// The number, where the host is one.
    pub fn ip(&self) -> Option<IpAddr> {
        self.target.ip()
    }

    /// What the `host` header says.
    pub fn authority(&self) -> String {
        self.target.authority()
    }

    /// Whether it is named as this box.
    pub fn is_local(&self) -> bool {
        self.host == "localhost" || self.ip().is_some_and(|ip| ip.to_canonical().is_loopback())
    }
}

impl TryFrom<String> for Endpoint {
    type Error = EndpointError;
    fn try_from(text: String) -> Result<Self, EndpointError> {
        Self::parse(&text)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.target.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_secure_or_on_this_box_is_taken() {
        let check = |text: &str, authority: &str, port: u16, path: &str| {
            let endpoint = Endpoint::parse(text).unwrap();
            assert_eq!(endpoint.authority(), authority, "{text}");
            assert_eq!((endpoint.port(), endpoint.path()), (port, path), "{text}");
        };
        check("https://api.example.org", "api.example.org", 443, "/");
        check(
            "https://API.example.org/v1/x?y=z",
            "api.example.org",
            443,
            "/v1/x?y=z",
        );
        check(
            "https://api.example.org:8443/a",
            "api.example.org:8443",
            8443,
            "/a",
        );
        check("https://[2001:db8::1]/a", "[2001:db8::1]", 443, "/a");
        check("http://127.0.0.1:9/a", "127.0.0.1:9", 9, "/a");
        check("http://localhost/a", "localhost", 80, "/a");
        check("http://[::1]:7/", "[::1]:7", 7, "/");
    }

    #[test]
    fn what_leaks_or_means_something_else_is_refused() {
        let check = |text: &str, expect: EndpointError| {
            assert_eq!(Endpoint::parse(text), Err(expect), "{text}");
        };
        for text in [
            "",
            "api.example.org",
            "/v1",
            "ftp://a.org/",
            "https://",
            "https:///x",
            "file:///etc/passwd",
        ] {
            check(text, EndpointError::Malformed);
        }
        for text in [
            "https://a.org:x/",
            "https://a.org:0/",
            "https://a.org:99999/",
            "https://a b.org/",
            "https://a.org\n/",
            // What programs read in different ways.
            "http://127.1/",
            "http://0x7f.0.0.1/",
            "https://2130706433/",
            "https://a..org/",
            "https://b\u{fc}cher.example/",
        ] {
            check(text, EndpointError::Malformed);
        }
        for text in [
            "https://u:p@a.org/",
            "https://a.org/#x",
            "http://127.0.0.1@evil.test/",
        ] {
            check(text, EndpointError::Extras);
        }
        for text in [
            "http://a.org/",
            "http://192.168.0.9/",
            "http://localhost.evil.test/",
            "http://0.0.0.0/",
        ] {
            check(text, EndpointError::Open);
        }
    }
}
