//! Reading the answer to one request of HTTP: one JSON document, or a stream of events with it.

use super::noted::Noted;
use crate::egress::{Incoming, Refusal};
use crate::mcp::failure::McpFailure;
use crate::mcp::limits::MAX_LINE_BYTES;
use axum::http::{HeaderName, HeaderValue};
use bxkit::sse::Decoder;
use rmcp::RoleClient;
use rmcp::model::JsonRpcMessage;
use rmcp::service::RxJsonRpcMessage;
use serde_json::Value;
use std::time::Duration;
use tokio::time::Instant;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// The longest name of a connection that a service may give, in bytes.
const MAX_SESSION_BYTES: usize = 512;
/// How long the name of a version is, in bytes: a date.
const VERSION_BYTES: usize = 10;

/// What further requests have as headers.
type Headers = Vec<(HeaderName, HeaderValue)>;

/// What is waited for.
#[derive(Debug)]
pub(super) struct Awaited {
    /// The number of the request.
    pub(super) id: Value,
    /// How long its answer may take, in milliseconds.
    pub(super) within_ms: u64,
}

/// An answer that is read.
#[derive(Debug)]
pub(super) struct Reading<'a> {
    noted: &'a Noted,
    awaited: Awaited,
}

impl<'a> Reading<'a> {
    pub(super) fn new(noted: &'a Noted, awaited: Awaited) -> Self {
        Self { noted, awaited }
    }

    /// The message that answers, with what its headers and its text say for further requests.
    /// Whatever else a stream of events has before it is passed over.
    pub(super) async fn answer(
        &mut self,
        mut answer: Incoming,
    ) -> Result<(RxJsonRpcMessage<RoleClient>, Headers), McpFailure> {
        if let Some(refusal) = Refusal::of(answer.status(), answer.retry_after()) {
            return Err(refusal.into());
        }
        let session = answer.header(&SESSION).cloned();
        let until = Instant::now() + Duration::from_millis(self.awaited.within_ms);
        let mut events = answer
            .is_events()
            .then(|| Decoder::with_limit(MAX_LINE_BYTES));
        let mut whole = Vec::new();
        while let Some(piece) = answer.piece(until, self.awaited.within_ms).await? {
            if !self.noted.came(piece.len()) {
                return Err(McpFailure::TooMuch);
            }
            let Some(events) = &mut events else {
                whole.extend_from_slice(&piece);
                if whole.len() > MAX_LINE_BYTES {
                    return Err(too_long());
                }
                continue;
            };
            for event in events.feed(&piece).map_err(|_| too_long())? {
                if let Some(message) = self.read(event.data.as_bytes())? {
                    return Ok((message, headers(event.data.as_bytes(), session)?));
                }
            }
        }
        if events.is_none()
            && let Some(message) = self.read(&whole)?
        {
            return Ok((message, headers(&whole, session)?));
        }
        Err(McpFailure::Unexpected)
    }

    /// Reads a message; none if it answers nothing. What the service asks us is not passed on: it
    /// would be answered.
    fn read(&self, text: &[u8]) -> Result<Option<RxJsonRpcMessage<RoleClient>>, McpFailure> {
        if text.is_empty() {
            return Ok(None);
        }
        let message = self.noted.read(text)?;
        let id = match &message {
            JsonRpcMessage::Response(response) => serde_json::to_value(&response.id),
            JsonRpcMessage::Error(error) => serde_json::to_value(&error.id),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => return Ok(None),
        };
        match id {
            Ok(id) if id == self.awaited.id || id.is_null() => Ok(Some(message)),
            _ => Err(McpFailure::Unexpected),
        }
    }
}

/// The version that a greeting agrees on, and the name that the service gives the connection.
fn headers(greeting: &[u8], session: Option<HeaderValue>) -> Result<Headers, McpFailure> {
    let greeting: Value = serde_json::from_slice(greeting).map_err(|_| McpFailure::NotProtocol)?;
    let is_date = |text: &&str| {
        text.len() == VERSION_BYTES && text.bytes().all(|b| b.is_ascii_digit() || b == b'-')
    };
    let version = greeting.pointer("/result/protocolVersion");
    let version = version.and_then(Value::as_str).filter(is_date);
    let version = version.map(HeaderValue::try_from).transpose();
    let version = version.map_err(|_| McpFailure::Version)?;
    let is_plain = |session: &HeaderValue| {
        session.len() <= MAX_SESSION_BYTES && session.as_bytes().iter().all(u8::is_ascii_graphic)
    };
    if !session.as_ref().is_none_or(is_plain) {
        return Err(McpFailure::Unexpected);
    }
    let version = version.map(|version| (VERSION, version));
    let session = session.map(|session| (SESSION, session));
    Ok(version.into_iter().chain(session).collect())
}

const fn too_long() -> McpFailure {
    McpFailure::TooLong {
        max_bytes: MAX_LINE_BYTES,
    }
}
