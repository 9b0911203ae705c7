//! The bytes of a request, and how large its prompt can be.
//!
//! A request is the conversation's messages copied between a head and a tail that an epoch fixed,
//! and then the few members that may differ from one request to the next.

use super::conversation::Conversation;
use super::schema::{held_to, reply_schema};
use crate::tools::Catalog;
use bxcore::chat::RawMessage;
use bxcore::transcript::{Epoch, ToolMode};
use bytes::Bytes;
use serde_json::value::RawValue;
use std::io::Write as _;

/// What a request may have beyond the bytes of its messages, in tokens: the template's own words.
const TEMPLATE_TOKENS: u64 = 256;

/// Bytes in a token: fewer than in any ordinary text, so that a guess is on the safe side.
pub(super) const BYTES_PER_TOKEN: u64 = 3;

/// Whether a model call may still ask for tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// It may call tools or answer.
    Open,
    /// It may only answer.
    Last,
    /// It sums up the conversation. Its request is not the conversation's own.
    Summary,
    /// It answers a question from passages of memory, in a request that has nothing else.
    Memory,
    /// It sums up a long result of a tool, in a request that has nothing else.
    Result,
}

/// What one request has that the next need not have.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// The slot, on a backend that has slots.
    pub slot: Option<u32>,
    /// The most tokens of the answer.
    pub max_tokens: u32,
    /// Whether tools may be called.
    pub stage: Stage,
    /// The tools whose schemas a found name stands for.
    pub catalog: &'a Catalog,
}

impl Stage {
    /// Whether the call is made beside the conversation, on the background slot: what it says is not
    /// for whoever listens to the turn.
    pub fn is_aside(self) -> bool {
        matches!(self, Self::Summary | Self::Memory | Self::Result)
    }
}

impl Conversation {
    /// The most tokens that the prompt of the next request can have.
    ///
    /// What the server reported last, and a token for every byte since: no tokeniser makes more.
    pub fn prompt_bound(&self) -> u64 {
        let (known, from) = match self.measured {
            Some(measured) => (measured.tokens + measured.slack, measured.end),
            None => (as_u64(self.tail.len()), self.messages_at),
        };
        let bound = known + as_u64(self.head.len() - from) + TEMPLATE_TOKENS;
        match self.epoch.as_ref().and_then(|epoch| epoch.context_tokens) {
            Some(most) => bound.min(most),
            None => bound,
        }
    }

    /// How many tokens an answer could still have before the context is full, at a guess; none
    /// where the backend doesn't say how many fit.
    pub fn room(&self) -> Option<u64> {
        let context = self.epoch.as_ref()?.context_tokens?;
        Some(context.saturating_sub(self.likely_tokens()))
    }

    /// How many tokens the next request likely has.
    pub(super) fn likely_tokens(&self) -> u64 {
        let (known, from) = match self.measured {
            Some(measured) => (measured.tokens, measured.end),
            None => (as_u64(self.tail.len()) / BYTES_PER_TOKEN, self.messages_at),
        };
        known + as_u64(self.head.len() - from) / BYTES_PER_TOKEN
    }

    /// The body of the next request.
    ///
    /// The members that stay the same come first and in a fixed order; those that may differ from
    /// one request to the next come last.
    pub fn body(&self, call: &Call<'_>) -> Bytes {
        const MEMBERS_BYTES: usize = 128;
        let mut varying: Vec<u8> = Vec::with_capacity(MEMBERS_BYTES);
        // Writing to a vector never fails.
        let _ = write!(varying, ",\"max_tokens\":{}", call.max_tokens);
        if let Some(slot) = call.slot {
            let _ = write!(varying, ",\"id_slot\":{slot}");
        }
        match (self.mode(), call.stage) {
            (ToolMode::Native, Stage::Open) => {}
            (ToolMode::Native, _) => {
                varying.extend_from_slice(b",\"tool_choice\":\"none\"");
            }
            (ToolMode::Schema, stage) => {
                let offered = self.offer.tools(call.catalog);
                let schema = reply_schema(&offered, stage, call.max_tokens);
                varying.extend_from_slice(held_to(&schema, call.slot).as_bytes());
            }
        }
        varying.push(b'}');
        let mut body = Vec::with_capacity(self.head.len() + self.tail.len() + varying.len());
        body.extend_from_slice(&self.head);
        body.extend_from_slice(&self.tail);
        body.extend_from_slice(&varying);
        Bytes::from(body)
    }

    /// The body of a request beside the conversation: to its model, with no tools, of two messages.
    pub(super) fn aside(
        &self,
        system: &str,
        asked: &str,
        max_tokens: u32,
        slot: Option<u32>,
    ) -> Bytes {
        let model = self.epoch.as_ref().map_or("", |epoch| epoch.model.as_str());
        let mut body = head(model);
        body.extend_from_slice(RawMessage::system(system).json().as_bytes());
        body.push(b',');
        body.extend_from_slice(RawMessage::user(asked).json().as_bytes());
        body.extend_from_slice(&tail(None, &self.fixed));
        // Writing to a vector never fails.
        let _ = write!(body, ",\"max_tokens\":{max_tokens}");
        if let Some(slot) = slot {
            let _ = write!(body, ",\"id_slot\":{slot}");
        }
        body.push(b'}');
        Bytes::from(body)
    }

    /// Whether an epoch would start with the same bytes as the one under way.
    pub(super) fn starts_like(&self, epoch: &Epoch) -> bool {
        let system = self.head.get(self.messages_at..self.system_end);
        system == Some(epoch.system.json().as_bytes())
            && self.tail == tail(epoch.tools.as_deref(), &epoch.fixed)
            && self.epoch.as_ref().map(|current| current.context_tokens)
                == Some(epoch.context_tokens)
    }
}

pub(super) fn head(model: &str) -> Vec<u8> {
    let model = serde_json::Value::from(model);
    format!("{{\"model\":{model},\"messages\":[").into_bytes()
}

/// What stands behind the messages of every request of an epoch.
pub(super) fn tail(tools: Option<&RawValue>, fixed: &RawValue) -> Vec<u8> {
    let mut tail = vec![b']'];
    if let Some(tools) = tools {
        tail.extend_from_slice(b",\"tools\":");
        tail.extend_from_slice(tools.get().as_bytes());
    }
    let fixed = fixed.get().trim();
    let members = fixed
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'));
    if let Some(members) = members.map(str::trim).filter(|members| !members.is_empty()) {
        tail.push(b',');
        tail.extend_from_slice(members.as_bytes());
    }
    tail
}

pub(super) fn as_u64(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
