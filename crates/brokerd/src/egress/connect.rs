//! Connections, for whoever sends.

use super::error::EgressError;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;

/// How long a connection to one address may take to be made, its TLS apart, in seconds.
pub const CONNECT_TIMEOUT_SECS: u64 = 5;

/// Connects to the first of a host's addresses that answers.
///
/// # Errors
/// None answers.
pub async fn connect(host: &str, addresses: &[SocketAddr]) -> Result<TcpStream, EgressError> {
    let within = Duration::from_secs(CONNECT_TIMEOUT_SECS);
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in addresses {
        match tokio::time::timeout(within, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                // It only delays small writes; without it the exchange is merely slower.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Ok(Err(error)) => last = error,
            Err(_) => last = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(EgressError::Connect {
        host: host.to_owned(),
        source: last,
    })
}
