//! One chat request as the server got it, for scripts to decide by and tests to look at.

use axum::http::HeaderMap;
use bytes::Bytes;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

use crate::contract::{Body, Link};

/// A chat request. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Request {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    seq: usize,
    at: Duration,
    slot: Option<u32>,
    link: Option<Link>,
    headers: HeaderMap,
    body: Body,
}

impl Request {
    pub(super) fn new(
        seq: usize,
        at: Duration,
        link: Option<Link>,
        headers: HeaderMap,
        body: Body,
    ) -> Self {
        let slot = body.value()["id_slot"]
            .as_u64()
            .and_then(|slot| u32::try_from(slot).ok());
        Self {
            inner: Arc::new(Inner {
                seq,
                at,
                slot,
                link,
                headers,
                body,
            }),
        }
    }

    /// Its place in order of arrival, from 0.
    pub fn seq(&self) -> usize {
        self.inner.seq
    }

    /// When it came, counted from the server's start.
    pub fn at(&self) -> Duration {
        self.inner.at
    }

    /// The `id_slot` it asks for.
    pub fn slot(&self) -> Option<u32> {
        self.inner.slot
    }

    /// How it extends an earlier request; `None` where it breaks the prefix contract.
    pub fn link(&self) -> Option<Link> {
        self.inner.link
    }

    /// Its HTTP headers.
    pub fn headers(&self) -> &HeaderMap {
        &self.inner.headers
    }

    /// The body, byte for byte.
    pub fn raw(&self) -> &Bytes {
        self.inner.body.raw()
    }

    /// The body as a value.
    pub fn value(&self) -> &Value {
        self.inner.body.value()
    }

    /// The messages.
    pub fn messages(&self) -> &[Value] {
        self.inner.body.messages()
    }

    /// The role of the last message.
    pub fn last_role(&self) -> &str {
        self.messages()
            .last()
            .and_then(|message| message["role"].as_str())
            .unwrap_or("")
    }

    /// The text of the last message.
    pub fn last_text(&self) -> String {
        self.messages()
            .last()
            .map_or_else(String::new, |message| text_of(&message["content"]))
    }

    /// The schema that the reply has to fit.
    pub fn response_schema(&self) -> Option<&Value> {
        self.value().pointer("/response_format/json_schema/schema")
    }

    /// How many model calls this turn has had, in native mode: answers that called tools, since the
    /// last one that didn't. In schema mode a call looks like an answer, so this is 0 there.
    pub fn calls_before_in_turn(&self) -> usize {
        let answers = |message: &&Value| message["role"] == "assistant";
        let calls = |message: &&Value| message.get("tool_calls").is_some();
        self.messages()
            .iter()
            .rev()
            .filter(answers)
            .take_while(calls)
            .count()
    }

    pub(super) fn body(&self) -> &Body {
        &self.inner.body
    }
}

pub(super) fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts
            .iter()
            .filter_map(|part| part["text"].as_str())
            .collect(),
        _ => String::new(),
    }
}
