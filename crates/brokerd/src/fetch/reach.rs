//! Where a host is: asked once, judged whole, and only then connected to.

use super::FetchError;
use crate::egress::target::{Host, Target};
use crate::egress::{EgressError, connect};
use bxcore::net::is_global;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// How many addresses of a host are looked at. A host with more is refused, so none goes unjudged.
const MAX_ADDRESSES: usize = 64;

/// Looks names up.
pub trait Resolver: Send + Sync {
    /// All addresses of a name.
    fn resolve(&self, name: &str) -> impl Future<Output = io::Result<Vec<IpAddr>>> + Send;
}

/// The system's way of looking names up.
#[derive(Debug, Clone, Copy)]
pub struct SystemResolver;

impl Resolver for SystemResolver {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let found = tokio::net::lookup_host((name, 0)).await?;
        Ok(found.map(|address| address.ip()).collect())
    }
}

/// Makes the connections that requests are written to.
pub trait Dialer: Send + Sync {
    /// What a request is written to and an answer read from.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// A connection to these addresses and no others; with TLS around it where the target asks for
    /// that.
    fn dial(
        &self,
        target: &Target,
        addresses: &Addresses,
    ) -> impl Future<Output = Result<Self::Stream, FetchError>> + Send;
}

/// Addresses of the public network that a host was found at. Nothing else makes one, so nothing
/// that was not judged can be connected to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addresses {
    host: String,
    all: Vec<SocketAddr>,
}

/// Looks a host up, once, and judges every address that it has: one that is not of the public
/// network spoils all.
///
/// # Errors
/// It leads nowhere, or to where it must not.
pub async fn look_up(target: &Target, resolver: &impl Resolver) -> Result<Addresses, FetchError> {
    let host = target.host();
    let found = match &target.host {
        Host::Ip(ip) => vec![*ip],
        Host::Name(name) => match resolver.resolve(name).await {
            Ok(found) => found,
            Err(source) => return Err(EgressError::Dns { host, source }.into()),
        },
    };
    if found.is_empty() {
        let source = io::ErrorKind::NotFound.into();
        return Err(EgressError::Dns { host, source }.into());
    }
    if found.len() > MAX_ADDRESSES || !found.iter().all(|ip| is_global(*ip)) {
        return Err(FetchError::NotPublic(host));
    }
    let port = target.port();
    let all = found
        .into_iter()
        .map(|ip| SocketAddr::new(ip.to_canonical(), port))
        .collect();
    Ok(Addresses { host, all })
}

impl Addresses {
    /// The addresses, in the order in which they are tried.
    pub fn all(&self) -> &[SocketAddr] {
        &self.all
    }

    /// Connects to the first that answers. The name is not looked up again.
    ///
    /// # Errors
    /// None answers.
    pub async fn connect(&self) -> Result<TcpStream, FetchError> {
        Ok(connect(&self.host, &self.all).await?)
    }
}
