//! The one way from brokerd to the network.
//!
//! HTTP/1.1, one request on one connection, to an address that was looked up once. No redirect is
//! followed, nothing is repeated, no proxy, no cookie, no compression, and no header but the few
//! that [`exchange`] names. What the other side says can't make a second request happen.

mod connect;
mod endpoint;
mod error;
mod exchange;
mod incoming;
mod refusal;
mod retry_after;
mod service;
mod speak;
mod stream;
pub(crate) mod target;
mod tls;

pub use connect::{CONNECT_TIMEOUT_SECS, connect};
pub use endpoint::{Endpoint, EndpointError};
pub use error::EgressError;
pub use exchange::{Bounds, Client, Head, Reply};
pub use incoming::Incoming;
pub use refusal::Refusal;
pub use retry_after::RetryAfter;
pub use service::{check_ca_file, check_service, reach};
pub use speak::{Answer, MAX_HEADERS, USER_AGENT, speak};
pub use stream::Stream;
pub use target::{MAX_URL_BYTES, Target, UrlError};
pub use tls::{Roots, RootsError};
