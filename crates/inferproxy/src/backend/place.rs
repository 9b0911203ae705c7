//! Where a server is: its name resolved once, before the process gives up the right to resolve.

use crate::config::BackendUrl;
use bxcore::net::is_own_network;
use std::net::{SocketAddr, ToSocketAddrs};

/// How many addresses of one name are tried.
const MAX_ADDRESSES: usize = 4;

/// A server's address as numbers. Nothing else is ever connected to for it.
#[derive(Debug, Clone)]
pub struct Place {
    url: BackendUrl,
    addresses: Vec<SocketAddr>,
    trouble: Option<String>,
}

impl Place {
    /// Resolves a server's address; blocks where it has a name.
    ///
    /// A name that can't be resolved, or leads out of the own network, gives a place without
    /// addresses and the reason.
    pub fn resolve(url: BackendUrl) -> Self {
        let (addresses, trouble) = match (url.ip(), url.host_name()) {
            (Some(ip), _) => (vec![SocketAddr::new(ip, url.port())], None),
            (None, Some(name)) => resolve_name(name, url.port()),
            (None, None) => (Vec::new(), None),
        };
        Self {
            url,
            addresses,
            trouble,
        }
    }

    /// The address as it was written.
    pub fn url(&self) -> &BackendUrl {
        &self.url
    }

    /// Where to connect to, in this order.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Why there is nowhere to connect to.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }
}

fn resolve_name(name: &str, port: u16) -> (Vec<SocketAddr>, Option<String>) {
    let found: Vec<SocketAddr> = match (name, port).to_socket_addrs() {
        Ok(found) => found.collect(),
        Err(error) => {
            return (
                Vec::new(),
                Some(format!("`{name}` can't be resolved: {error}")),
            );
        }
    };
    let own: Vec<_> = found
        .into_iter()
        .filter(|address| is_own_network(address.ip()))
        .take(MAX_ADDRESSES)
        .collect();
    let trouble = own
        .is_empty()
        .then(|| format!("`{name}` is not on this box or in a private network"));
    (own, trouble)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_localhost_resolve_without_a_network() {
        for text in [
            "http://127.0.0.1:8080",
            "http://[::1]:8080",
            "http://localhost:8080",
        ] {
            let place = Place::resolve(BackendUrl::parse(text).unwrap());
            assert!(
                place
                    .addresses()
                    .iter()
                    .all(|at| at.ip().is_loopback() && at.port() == 8080)
            );
            assert!(!place.addresses().is_empty(), "{text}");
            assert_eq!(place.trouble(), None);
        }
    }
}
