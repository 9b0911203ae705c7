//! One request, one answer.

use super::connect::connect;
use super::endpoint::Endpoint;
use super::error::EgressError;
use super::incoming::Incoming;
use super::retry_after::RetryAfter;
use super::speak::{Answer, USER_AGENT, speak};
use super::stream::Stream;
use super::tls::Roots;
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

/// Sends requests to one place.
#[derive(Debug, Clone)]
pub struct Client {
    endpoint: Endpoint,
    roots: Option<Roots>,
}

/// What a request has as headers, beside those that all have.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a> {
    /// Who we are to the other side; nobody in particular if left out.
    pub bearer: Option<&'a str>,
    /// What may come back.
    pub accept: &'static str,
    /// What its protocol wants besides.
    pub more: &'a [(header::HeaderName, HeaderValue)],
}

impl<'a> Head<'a> {
    const fn of(bearer: Option<&'a str>, accept: &'static str) -> Self {
        Self {
            bearer,
            accept,
            more: &[],
        }
    }
}

/// A whole answer.
#[derive(Debug)]
pub struct Reply {
    /// Its status.
    pub status: StatusCode,
    /// When to ask again, as the other side says.
    pub retry_after: Option<RetryAfter>,
    /// Its body; nothing where the status is not 200.
    pub body: Bytes,
}

/// The limits of one exchange.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// How long it may take from the look-up of the name to the last byte, in milliseconds.
    pub timeout_ms: u64,
    /// How long the answer's body may be, in bytes.
    pub max_bytes: usize,
}

impl Client {
    /// For an endpoint; one that is spoken to through TLS needs `roots`.
    pub fn new(endpoint: Endpoint, roots: Option<Roots>) -> Self {
        Self { endpoint, roots }
    }

    /// Where it sends to.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Posts a body of JSON exactly as it is, and reads the whole answer.
    ///
    /// # Errors
    /// There is no whole answer within the bounds. An answer of whatever status is none.
    pub async fn post_json(
        &self,
        bearer: Option<&str>,
        body: Bytes,
        bounds: Bounds,
    ) -> Result<Reply, EgressError> {
        let sent = AtomicBool::new(false);
        let exchange = self.exchange(bearer, body, bounds.max_bytes, &sent);
        let within = Duration::from_millis(bounds.timeout_ms);
        match tokio::time::timeout(within, exchange).await {
            Ok(done) => done,
            Err(_) => Err(EgressError::TimedOut {
                timeout_ms: bounds.timeout_ms,
                sent: sent.load(Ordering::Relaxed),
            }),
        }
    }

    /// Posts a body of JSON exactly as it is, and gives the answer as it comes in.
    ///
    /// `within_ms` bounds the time from the look-up of the name to the answer's head.
    ///
    /// # Errors
    /// There is no answer in that time. One of whatever status is none.
    pub async fn post_for_events(
        &self,
        bearer: Option<&str>,
        body: Bytes,
        within_ms: u64,
    ) -> Result<Incoming, EgressError> {
        self.post(Head::of(bearer, EVENTS), body, within_ms).await
    }

    /// The same, with other headers.
    ///
    /// # Errors
    /// There is no answer in that time. One of whatever status is none.
    pub async fn post(
        &self,
        head: Head<'_>,
        body: Bytes,
        within_ms: u64,
    ) -> Result<Incoming, EgressError> {
        let sent = AtomicBool::new(false);
        let begun = self.begin(head, body, &sent);
        match tokio::time::timeout(Duration::from_millis(within_ms), begun).await {
            Ok(begun) => begun.map(Incoming::new),
            Err(_) => Err(EgressError::TimedOut {
                timeout_ms: within_ms,
                sent: sent.load(Ordering::Relaxed),
            }),
        }
    }

    async fn exchange(
        &self,
        bearer: Option<&str>,
        body: Bytes,
        max_bytes: usize,
        sent: &AtomicBool,
    ) -> Result<Reply, EgressError> {
        let head = Head::of(bearer, JSON);
        let Answer { response, driver } = self.begin(head, body, sent).await?;
        let status = response.status();
        let retry_after = RetryAfter::of(response.headers());
        // What is no answer tells everything by its status, whether or not its body ever ends.
        let body = match status {
            StatusCode::OK => read_whole(response.into_body(), max_bytes).await?,
            _ => Bytes::new(),
        };
        drop(driver);
        Ok(Reply {
            status,
            retry_after,
            body,
        })
    }

    /// Sends the one request; the answer's body is still to come.
    ///
    /// A connection that is dropped half way is closed, so a call that is given up ends there.
    async fn begin(
        &self,
        head: Head<'_>,
        body: Bytes,
        sent: &AtomicBool,
    ) -> Result<Answer, EgressError> {
        let request = self.request(head, body).map_err(EgressError::Request)?;
        let host = self.endpoint.host();
        let stream = connect(host, &self.addresses().await?).await?;
        let stream = match &self.roots {
            Some(roots) if self.endpoint.is_tls() => roots.secure(host, stream).await?,
            _ => Stream::Open(stream),
        };
        // From here on a byte may be on its way.
        sent.store(true, Ordering::Relaxed);
        speak(stream, request).await.map_err(EgressError::Broken)
    }

    fn request(
        &self,
        head: Head<'_>,
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>, axum::http::Error> {
        let request = Request::builder()
            .method(Method::POST)
            .uri(self.endpoint.path())
            .header(header::HOST, self.endpoint.authority())
            .header(header::USER_AGENT, USER_AGENT)
            .header(header::ACCEPT, head.accept)
            .header(header::CONTENT_TYPE, JSON)
            .header(header::CONNECTION, "close");
        let request = match head.bearer {
            Some(bearer) => {
                let mut authorization = HeaderValue::try_from(format!("Bearer {bearer}"))?;
                authorization.set_sensitive(true);
                request.header(header::AUTHORIZATION, authorization)
            }
            None => request,
        };
        let more = head.more.iter();
        more.fold(request, |request, (name, value)| {
            request.header(name, value)
        })
        .body(Full::new(body))
    }

    /// Where the host is, asked once.
    async fn addresses(&self) -> Result<Vec<SocketAddr>, EgressError> {
        let (host, port) = (self.endpoint.host(), self.endpoint.port());
        if let Some(ip) = self.endpoint.ip() {
            return Ok(vec![SocketAddr::new(ip, port)]);
        }
        let failed = |source| EgressError::Dns {
            host: host.to_owned(),
            source,
        };
        let found: Vec<SocketAddr> = tokio::net::lookup_host((host, port))
            .await
            .map_err(failed)?
            .collect();
        if found.is_empty() {
            return Err(failed(io::ErrorKind::NotFound.into()));
        }
        // `localhost` is what the system says it is, and the request goes out unprotected.
        let strays = |address: &&SocketAddr| !address.ip().to_canonical().is_loopback();
        match found.iter().find(strays) {
            Some(address) if !self.endpoint.is_tls() => Err(EgressError::Refused {
                host: host.to_owned(),
                leads_to: address.ip().to_string(),
            }),
            _ => Ok(found),
        }
    }
}

async fn read_whole(body: hyper::body::Incoming, max_bytes: usize) -> Result<Bytes, EgressError> {
    match Limited::new(body, max_bytes).collect().await {
        Ok(whole) => Ok(whole.to_bytes()),
        Err(error) => Err(match error.downcast::<hyper::Error>() {
            Ok(error) => EgressError::CutOff(*error),
            Err(_) => EgressError::TooLong { max_bytes },
        }),
    }
}

/// A header of the answer, where it is short and plain.
pub(super) fn shown(headers: &HeaderMap, name: &header::HeaderName) -> Option<String> {
    const MAX_SHOWN_BYTES: usize = 64;
    let text = headers.get(name)?.to_str().ok()?;
    (text.len() <= MAX_SHOWN_BYTES).then(|| text.to_owned())
}
