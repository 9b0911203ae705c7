//! Calls to a role.

use super::body::{BodyStream, RawResponse};
use super::call_error::{Break, CallError};
use super::health::Health;
use super::pool::Pool;
use super::stream::EventStream;
use crate::keys::Token;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use bxcore::code::Code;
use bxcore::problem::Problem;
use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::borrow::Borrow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long a call may take until its answer begins, where the caller sets nothing else.
pub const CALL_TIMEOUT_SECS: u64 = 600;

/// The largest answer that is read whole, where the caller sets nothing else.
pub const MAX_ANSWER_BYTES: usize = 64 * 1024 * 1024;

/// How often [`Client::wait_ready`] looks.
pub const READY_POLL_MS: u64 = 10;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");
const HOST: HeaderValue = HeaderValue::from_static("boxmaker");

/// Calls one role over its socket. Cheap to clone; clones share their connections.
#[derive(Debug, Clone)]
pub struct Client {
    pool: Arc<Pool>,
    authorization: HeaderValue,
    timeout: Duration,
    max_answer_bytes: usize,
}

impl Client {
    /// A client for the role that listens at `socket`; connects only when called.
    pub fn new(socket: PathBuf, token: impl Borrow<Token>) -> Self {
        let bearer = format!("Bearer {}", token.borrow().expose());
        // A token is hex digits, which any header can hold.
        let mut authorization =
            HeaderValue::try_from(bearer).unwrap_or(HeaderValue::from_static(""));
        authorization.set_sensitive(true);
        Self {
            pool: Pool::new(socket),
            authorization,
            timeout: Duration::from_secs(CALL_TIMEOUT_SECS),
            max_answer_bytes: MAX_ANSWER_BYTES,
        }
    }

    /// The same client with another limit on the time until an answer begins.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The same client with another limit on the size of answers that are read whole.
    pub fn max_answer_bytes(mut self, max_bytes: usize) -> Self {
        self.max_answer_bytes = max_bytes;
        self
    }

    /// The socket that is called.
    pub fn socket(&self) -> &Path {
        self.pool.socket()
    }

    /// Calls with GET; an empty answer reads as `null`.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, CallError> {
        self.call(Method::GET, path, Bytes::new()).await
    }

    /// Calls with POST and a JSON body; an empty answer reads as `null`.
    pub async fn post<B, T>(&self, path: &str, body: &B) -> Result<T, CallError>
    where
        B: Serialize + ?Sized,
        T: DeserializeOwned,
    {
        self.call(Method::POST, path, to_json(path, body)?).await
    }

    /// Calls with PUT and a JSON body; an empty answer reads as `null`.
    pub async fn put<B, T>(&self, path: &str, body: &B) -> Result<T, CallError>
    where
        B: Serialize + ?Sized,
        T: DeserializeOwned,
    {
        self.call(Method::PUT, path, to_json(path, body)?).await
    }

    /// Calls with DELETE; an empty answer reads as `null`.
    pub async fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T, CallError> {
        self.call(Method::DELETE, path, Bytes::new()).await
    }

    /// Calls with POST and a JSON body for an answer of server-sent events.
    pub async fn stream<B>(&self, path: &str, body: &B) -> Result<EventStream, CallError>
    where
        B: Serialize + ?Sized,
    {
        self.events(Method::POST, path, to_json(path, body)?, HeaderMap::new())
            .await
    }

    /// Sends bytes as they are, with headers added, for an answer of server-sent events.
    pub async fn stream_raw(
        &self,
        path: &str,
        body: Bytes,
        headers: HeaderMap,
    ) -> Result<EventStream, CallError> {
        self.events(Method::POST, path, body, headers).await
    }

    /// Calls with GET for an answer of server-sent events.
    pub async fn get_stream(&self, path: &str) -> Result<EventStream, CallError> {
        self.events(Method::GET, path, Bytes::new(), HeaderMap::new())
            .await
    }

    /// Calls with GET for an answer that is no JSON, such as a transcript.
    ///
    /// # Errors
    /// As for [`Client::get`]: an answer of failure is given as its problem.
    pub async fn get_raw(&self, path: &str) -> Result<RawResponse, CallError> {
        let answer = self
            .send(Method::GET, path, Bytes::new(), HeaderMap::new())
            .await?;
        succeeded(answer).await
    }

    /// Sends bytes as they are; the answer's status is the caller's to look at.
    ///
    /// `headers` are added to those of every call; `content-type` is JSON unless they say otherwise.
    pub async fn post_raw(
        &self,
        path: &str,
        body: Bytes,
        headers: HeaderMap,
    ) -> Result<RawResponse, CallError> {
        self.send(Method::POST, path, body, headers).await
    }

    /// The role's health.
    pub async fn health(&self) -> Result<Health, CallError> {
        self.get("/v1/health").await
    }

    /// Waits until the role is ready, at most `within`.
    ///
    /// # Errors
    /// The last failure, when the time is over, or a refusal at once.
    pub async fn wait_ready(&self, within: Duration) -> Result<Health, CallError> {
        let deadline = Instant::now() + within;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let failure = match self.clone().timeout(left).health().await {
                Ok(health) => return Ok(health),
                Err(refused @ CallError::Refused(_)) => return Err(refused),
                Err(failure) => failure,
            };
            let next = Instant::now() + Duration::from_millis(READY_POLL_MS);
            if next >= deadline {
                return Err(failure);
            }
            tokio::time::sleep_until(next).await;
        }
    }

    async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<T, CallError> {
        let whole = async {
            let answer = self.send(method, path, body, HeaderMap::new()).await?;
            let answer = succeeded(answer).await?;
            answer.body.collect(self.max_answer_bytes).await
        };
        let bytes = self.in_time(path, whole).await?;
        let bytes: &[u8] = if bytes.is_empty() { b"null" } else { &bytes };
        serde_json::from_slice(bytes)
            .map_err(|error| CallError::broken(path, Break::Garbled(error.to_string())))
    }

    async fn events(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
        mut headers: HeaderMap,
    ) -> Result<EventStream, CallError> {
        headers.insert(header::ACCEPT, EVENT_STREAM);
        let answer = succeeded(self.send(method, path, body, headers).await?).await?;
        let kind = answer.headers.get(header::CONTENT_TYPE);
        if !kind.is_some_and(|kind| kind.as_bytes().starts_with(EVENT_STREAM.as_bytes())) {
            return Err(CallError::broken(
                path,
                Break::Garbled("not an event stream".to_owned()),
            ));
        }
        Ok(EventStream::new(answer.body))
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
        headers: HeaderMap,
    ) -> Result<RawResponse, CallError> {
        let request = self.request(method, path, body, headers)?;
        let (response, lease) = self.in_time(path, self.pool.send(request)).await?;
        let (parts, incoming) = response.into_parts();
        let body = BodyStream::new(incoming, lease, path);
        Ok(RawResponse {
            status: parts.status,
            headers: parts.headers,
            body,
        })
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
        headers: HeaderMap,
    ) -> Result<Request<Full<Bytes>>, CallError> {
        let uri = Uri::try_from(path)
            .ok()
            .filter(|uri| uri.path().starts_with('/'));
        let Some(uri) = uri else {
            let title = "An address inside Boxmaker is not valid";
            return Err(CallError::Refused(
                Problem::new(Code::BadRequest, title).detail(path),
            ));
        };
        let has_body = !body.is_empty();
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        let all = request.headers_mut();
        *all = headers;
        all.insert(header::HOST, HOST);
        all.insert(header::AUTHORIZATION, self.authorization.clone());
        if has_body && !all.contains_key(header::CONTENT_TYPE) {
            all.insert(header::CONTENT_TYPE, JSON);
        }
        Ok(request)
    }

    async fn in_time<T>(
        &self,
        path: &str,
        work: impl Future<Output = Result<T, CallError>>,
    ) -> Result<T, CallError> {
        match tokio::time::timeout(self.timeout, work).await {
            Ok(done) => done,
            Err(_) => Err(CallError::broken(
                path,
                Break::TimedOut {
                    secs: self.timeout.as_secs(),
                },
            )),
        }
    }
}

/// An answer of success as it is; any other as the problem it carries.
async fn succeeded(answer: RawResponse) -> Result<RawResponse, CallError> {
    if answer.status.is_success() {
        return Ok(answer);
    }
    let RawResponse { status, body, .. } = answer;
    let path = body.path().to_owned();
    let bytes = body.collect(MAX_ANSWER_BYTES).await?;
    Err(match serde_json::from_slice(&bytes) {
        Ok(problem) => CallError::Refused(problem),
        Err(_) => CallError::broken(&path, Break::Garbled(unexplained(status))),
    })
}

fn unexplained(status: StatusCode) -> String {
    format!("status {status} without a problem body")
}

fn to_json<B: Serialize + ?Sized>(path: &str, body: &B) -> Result<Bytes, CallError> {
    serde_json::to_vec(body).map(Bytes::from).map_err(|error| {
        let title = "A request inside Boxmaker can't be written as JSON";
        CallError::Refused(Problem::new(Code::Internal, title).detail(format!("{path}: {error}")))
    })
}
