//! HTTP/1.1 to one model server: its configured addresses only, no proxy, no redirect, no retry.
//!
//! Dropping an answer closes its connection at once: that is how a call is stopped.

use super::place::Place;
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use std::io;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio_util::task::AbortOnDropHandle;

/// How long a connection may take to be made.
pub const CONNECT_TIMEOUT_MS: u64 = 5_000;
/// The largest answer that is read whole (properties, lists, errors).
pub const MAX_REPLY_BYTES: usize = 8 * 1024 * 1024;
/// How many idle connections are kept.
const MAX_IDLE_CONNECTIONS: usize = 256;
/// How long an idle connection is kept: well below the 5 s after which common servers close one.
const MAX_IDLE_MS: u64 = 2_000;
/// How many headers an answer may have.
const MAX_HEADERS: usize = 100;

/// Why a server gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    /// The name leads nowhere.
    #[error("{0}")]
    Unresolved(String),
    /// No connection.
    #[error("no connection to {at}")]
    Connect {
        /// Where to.
        at: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// No connection in time.
    #[error("no connection to {at} within {timeout_ms} ms")]
    ConnectTimeout {
        /// Where to.
        at: SocketAddr,
        /// The limit.
        timeout_ms: u64,
    },
    /// The connection was closed before the request went out.
    #[error("the connection was closed before the request was sent")]
    NotSent,
    /// The request can't be written as HTTP.
    #[error("the request can't be written")]
    Request(#[source] axum::http::Error),
    /// The connection broke.
    #[error("the connection broke")]
    Broken(#[source] hyper::Error),
    /// The answer is not whole, or larger than [`MAX_REPLY_BYTES`].
    #[error("the answer broke off or is larger than {MAX_REPLY_BYTES} bytes ({0})")]
    Unreadable(String),
    /// No answer in time.
    #[error("no answer within {timeout_ms} ms")]
    TimedOut {
        /// The limit.
        timeout_ms: u128,
    },
}

impl UpstreamError {
    /// Whether the server can't have seen anything of the request.
    pub fn nothing_was_sent(&self) -> bool {
        match self {
            Self::Unresolved(_)
            | Self::Connect { .. }
            | Self::ConnectTimeout { .. }
            | Self::NotSent
            | Self::Request(_) => true,
            Self::Broken(_) | Self::Unreadable(_) | Self::TimedOut { .. } => false,
        }
    }
}

/// The way to one server.
#[derive(Debug)]
pub struct Upstream {
    place: Place,
    host: HeaderValue,
    authorization: Option<HeaderValue>,
    idle: Mutex<Vec<Idle>>,
}

#[derive(Debug)]
struct Idle {
    link: Link,
    since: Instant,
}

/// A connection. Dropping it closes it.
#[derive(Debug)]
struct Link {
    sender: http1::SendRequest<Full<Bytes>>,
    _driver: AbortOnDropHandle<()>,
}

/// An answer read whole.
#[derive(Debug, Clone)]
pub struct Reply {
    /// Its status.
    pub status: StatusCode,
    /// Its body.
    pub body: Bytes,
}

/// An answer whose body is still coming. Dropping it closes the connection.
#[derive(Debug)]
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    body: Incoming,
    link: Link,
}

impl Upstream {
    /// The way to a server; `bearer` is sent as its API key.
    pub fn new(place: Place, bearer: Option<&str>) -> Self {
        let host = HeaderValue::try_from(place.url().authority());
        let authorization = bearer.and_then(|key| {
            let mut value = HeaderValue::try_from(format!("Bearer {key}")).ok()?;
            value.set_sensitive(true);
            Some(value)
        });
        Self {
            // A parsed address has no characters that a header can't hold.
            host: host.unwrap_or(HeaderValue::from_static("localhost")),
            place,
            authorization,
            idle: Mutex::new(Vec::new()),
        }
    }

    /// Asks for a small document, on a connection of its own.
    pub async fn get(&self, path: &str, timeout: Duration) -> Result<Reply, UpstreamError> {
        let exchange = async {
            let request = self.request(Method::GET, path, Bytes::new())?;
            let link = self.connect().await?;
            let answer = send(link, request).await.map_err(|(error, _)| error)?;
            answer.read().await
        };
        let timeout_ms = timeout.as_millis();
        let timed = tokio::time::timeout(timeout, exchange).await;
        timed.unwrap_or(Err(UpstreamError::TimedOut { timeout_ms }))
    }

    /// Sends a body and gives the answer as soon as its head is there; no time limit.
    ///
    /// `reuse` allows a kept connection. If that turns out closed before anything was sent, a new
    /// one is made; nothing is ever sent twice.
    pub async fn post(
        &self,
        path: &str,
        body: Bytes,
        reuse: Reuse,
    ) -> Result<Answer, UpstreamError> {
        let mut request = self.request(Method::POST, path, body)?;
        if reuse == Reuse::Allowed
            && let Some(link) = self.take_idle()
        {
            match send(link, request).await {
                Ok(answer) => return Ok(answer),
                Err((_, Some(unsent))) => request = unsent,
                Err((error, None)) => return Err(error),
            }
        }
        let link = self.connect().await?;
        send(link, request).await.map_err(|(error, _)| error)
    }

    /// Keeps the connection of an answer that was read to its end for the next request.
    pub fn keep(&self, answer: Answer) {
        let mut idle = self.idle();
        if idle.len() < MAX_IDLE_CONNECTIONS && !answer.link.sender.is_closed() {
            idle.push(Idle {
                link: answer.link,
                since: Instant::now(),
            });
        }
    }

    fn take_idle(&self) -> Option<Link> {
        let mut idle = self.idle();
        while let Some(kept) = idle.pop() {
            if kept.since.elapsed() > Duration::from_millis(MAX_IDLE_MS) {
                // The rest was kept longer still.
                idle.clear();
            } else if kept.link.sender.is_ready() {
                return Some(kept.link);
            }
        }
        None
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>, UpstreamError> {
        let target = format!("{}{path}", self.place.url().base_path());
        let mut request = Request::builder()
            .method(method)
            .uri(target)
            .header(header::HOST, self.host.clone())
            .header(
                header::ACCEPT,
                HeaderValue::from_static("text/event-stream, application/json"),
            );
        if !body.is_empty() {
            request = request.header(
                header::CONTENT_TYPE,
                HeaderValue::from_static("application/json"),
            );
        }
        if let Some(authorization) = &self.authorization {
            request = request.header(header::AUTHORIZATION, authorization.clone());
        }
        request
            .body(Full::new(body))
            .map_err(UpstreamError::Request)
    }

    async fn connect(&self) -> Result<Link, UpstreamError> {
        let nowhere = || {
            self.place
                .trouble()
                .unwrap_or("there is no address")
                .to_owned()
        };
        let mut failure = None;
        for at in self.place.addresses() {
            match connect(*at).await {
                Ok(link) => return Ok(link),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        Err(failure.unwrap_or_else(|| UpstreamError::Unresolved(nowhere())))
    }
}

/// Whether a request may go over a kept connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reuse {
    /// It may.
    Allowed,
    /// It gets a connection of its own. llama-server gives each connection a thread for as long as
    /// it is open, idle or not.
    Never,
}

async fn connect(at: SocketAddr) -> Result<Link, UpstreamError> {
    let timeout_ms = CONNECT_TIMEOUT_MS;
    let connecting =
        tokio::time::timeout(Duration::from_millis(timeout_ms), TcpStream::connect(at));
    let stream = match connecting.await {
        Ok(Ok(stream)) => stream,
        Ok(Err(source)) => return Err(UpstreamError::Connect { at, source }),
        Err(_) => return Err(UpstreamError::ConnectTimeout { at, timeout_ms }),
    };
    // Without it a body's last packet can wait for an acknowledgement. Failing is no harm.
    let _ = stream.set_nodelay(true);
    let (sender, connection) = http1::Builder::new()
        .max_headers(MAX_HEADERS)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(UpstreamError::Broken)?;
    let driver = tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to a model server ended early");
        }
    });
    Ok(Link {
        sender,
        _driver: AbortOnDropHandle::new(driver),
    })
}

/// Sends a request; gives it back if it can't have left.
async fn send(
    mut link: Link,
    request: Request<Full<Bytes>>,
) -> Result<Answer, (UpstreamError, Option<Request<Full<Bytes>>>)> {
    match link.sender.try_send_request(request).await {
        Ok(response) => {
            let (head, body) = response.into_parts();
            Ok(Answer {
                status: head.status,
                headers: head.headers,
                body,
                link,
            })
        }
        Err(mut error) => match error.take_message() {
            Some(unsent) => Err((UpstreamError::NotSent, Some(unsent))),
            None => Err((UpstreamError::Broken(error.into_error()), None)),
        },
    }
}

impl Answer {
    /// The next piece of the body; none at its end.
    pub async fn piece(&mut self) -> Option<Result<Bytes, UpstreamError>> {
        loop {
            let frame = match self.body.frame().await? {
                Ok(frame) => frame,
                Err(error) => return Some(Err(UpstreamError::Broken(error))),
            };
            // Trailers say nothing that matters here.
            if let Ok(piece) = frame.into_data() {
                return Some(Ok(piece));
            }
        }
    }

    /// The whole body, up to [`MAX_REPLY_BYTES`].
    pub async fn read(self) -> Result<Reply, UpstreamError> {
        let status = self.status;
        let whole = Limited::new(self.body, MAX_REPLY_BYTES).collect().await;
        let body = whole
            .map_err(|error| UpstreamError::Unreadable(error.to_string()))?
            .to_bytes();
        Ok(Reply { status, body })
    }
}
