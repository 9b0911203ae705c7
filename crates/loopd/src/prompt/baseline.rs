//! The baseline of an epoch, and when a new one is due.
//!
//! A baseline holds what a request starts with, byte for byte. It depends on the backend, the
//! configuration, this program, and memory as it was when the epoch began; what changes in memory
//! later begins no new epoch.

use super::conversation::Conversation;
use super::system::system_text;
use crate::config::Sampling;
use crate::tools::core_array;
use bxcore::chat::RawMessage;
use bxcore::id::EpochId;
use bxcore::transcript::{Epoch, EpochReason, ToolMode};
use bxcore::wire::inferproxy::{BackendInfo, BackendKind};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use std::sync::Arc;

impl Conversation {
    /// The epoch that must begin before the next request, if the one under way doesn't fit the
    /// backend and the configuration any more, or if there is none yet.
    ///
    /// It has the memory of the one under way; [`remembering`] gives it what there is now.
    pub fn next_epoch(&self, backend: &BackendInfo, sampling: &Sampling) -> Option<Epoch> {
        let Some(current) = self.epoch() else {
            return Some(epoch(EpochId::FIRST, EpochReason::Start, backend, sampling));
        };
        let moved = current.backend != backend.name
            || current.fingerprint != backend.fingerprint
            || current.model != backend.model
            || current.mode != backend.tools;
        let reason = if moved {
            EpochReason::ModelChanged
        } else {
            EpochReason::ConfigChanged
        };
        let next = epoch(current.id.next(), reason, backend, sampling);
        let next = remembering(next, &current.memory);
        (moved || !self.starts_like(&next)).then_some(next)
    }
}

/// The same epoch with this text of memory in it.
pub fn remembering(epoch: Epoch, memory: &str) -> Epoch {
    Epoch {
        system: RawMessage::system(&system_text(epoch.mode, memory)),
        memory: memory.to_owned(),
        ..epoch
    }
}

fn epoch(id: EpochId, reason: EpochReason, backend: &BackendInfo, sampling: &Sampling) -> Epoch {
    Epoch {
        epoch: id,
        reason,
        backend: backend.name.clone(),
        fingerprint: backend.fingerprint.clone(),
        model: backend.model.clone(),
        mode: backend.tools,
        system: RawMessage::system(&system_text(backend.tools, "")),
        memory: String::new(),
        tools: (backend.tools == ToolMode::Native).then(core_array),
        fixed: fixed(backend.kind, sampling),
        context_tokens: backend.context_tokens,
        compacted: None,
    }
}

/// The members of a request that stay the same for a whole epoch.
fn fixed(kind: BackendKind, sampling: &Sampling) -> Arc<RawValue> {
    let mut members = Map::new();
    let mut put = |key: &str, value: Value| {
        members.insert(key.to_owned(), value);
    };
    put("temperature", json!(sampling.temperature));
    if let Some(seed) = sampling.seed {
        put("seed", json!(seed));
    }
    put("stream", json!(true));
    put("stream_options", json!({"include_usage": true}));
    if kind == BackendKind::LlamaServer {
        put("cache_prompt", json!(true));
        // The server notices that a caller went away when it writes; while it reads a prompt it
        // writes progress only.
        put("return_progress", json!(true));
    }
    // Values of plain data always serialise; the fallback keeps this free of panics.
    let raw =
        serde_json::value::to_raw_value(&members).unwrap_or_else(|_| RawValue::NULL.to_owned());
    Arc::from(raw)
}
