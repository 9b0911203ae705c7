//! `recall`, `memory` and `ask_memory`: decided and recorded here like every tool, done by memoryd.
//!
//! What memoryd finds has the labels of whoever wrote it. They join the session's in the ledger, on
//! disk, before the text is given out: so it is with every tool's result, and needs nothing of its own.

mod client;
mod notes;
mod question;
mod recall;

pub use client::{MAX_MEMORY_CALLS_AT_ONCE, MEMORY_TIMEOUT_SECS, Memory};
pub use notes::may_repeat;

use bxcore::id::{CallId, SessionId};
use bxcore::label::Label;
use serde_json::Value;

/// What `recall` says of itself.
pub const RECALL_DESCRIPTION: &str = "Searches notes and earlier conversations.";
/// What `memory` says of itself.
pub const MEMORY_DESCRIPTION: &str = "Adds, replaces, removes or lists notes in memory.";

/// What `ask_memory` says of itself.
pub const ASK_MEMORY_DESCRIPTION: &str = "Answers a question from memory.";

/// A call of one of the three tools.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoryCall {
    /// Which.
    pub tool: MemoryTool,
    /// The session.
    pub session: SessionId,
    /// Its number for the call.
    pub call: CallId,
    /// The label that the call was judged by.
    pub label: Label,
    /// Its arguments, which fit the tool's schema.
    pub arguments: Value,
}

/// Which tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryTool {
    /// `recall`.
    Recall,
    /// `memory`.
    Notes,
    /// `ask_memory`.
    Question,
}

impl MemoryTool {
    /// The tool of a name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            bxcore::memory::RECALL => Some(Self::Recall),
            bxcore::memory::MEMORY => Some(Self::Notes),
            bxcore::memory::ASK_MEMORY => Some(Self::Question),
            _ => None,
        }
    }
}
