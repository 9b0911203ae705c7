//! One request on one connection, for whoever sends.

use axum::http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use std::error::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::task::AbortOnDropHandle;

/// What every request says of who sends it.
pub const USER_AGENT: &str = concat!("boxmaker/", env!("CARGO_PKG_VERSION"));
/// How many headers an answer may have.
pub const MAX_HEADERS: usize = 100;

/// An answer whose body is still to come. Dropping it closes the connection.
#[derive(Debug)]
pub struct Answer {
    /// Its head, and its body as it comes in.
    pub response: Response<Incoming>,
    /// What moves the connection's bytes: the body ends with it.
    pub driver: AbortOnDropHandle<()>,
}

/// Sends a request over HTTP/1.1 and awaits the head of its answer.
///
/// # Errors
/// The connection broke, or what came is no HTTP.
pub async fn speak<B>(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<B>,
) -> Result<Answer, hyper::Error>
where
    B: Body<Error: Into<Box<dyn Error + Send + Sync>>, Data: Send> + Send + 'static,
{
    let (mut sender, connection) = http1::Builder::new()
        .max_headers(MAX_HEADERS)
        .handshake(TokioIo::new(stream))
        .await?;
    let driver = AbortOnDropHandle::new(tokio::spawn(async move {
        // How the connection ends shows in the answer.
        let _ = connection.await;
    }));
    let response = sender.send_request(request).await?;
    Ok(Answer { response, driver })
}
