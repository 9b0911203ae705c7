//! What memory is made of: entries, and who wrote them.

use crate::id::{EntryId, InvalidId, SessionId};
use crate::label::Label;
use crate::wire::memoryd::MAX_HITS;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fmt;
use std::str::FromStr;

/// The longest text of one entry, in bytes.
pub const MAX_ENTRY_BYTES: usize = 16 * 1024;

/// The tool that searches memory and transcripts.
pub const RECALL: &str = "recall";
/// The tool that changes and lists memory files.
pub const MEMORY: &str = "memory";

/// The tool that answers a question from what `recall` would find.
pub const ASK_MEMORY: &str = "ask_memory";
/// How many passages a question is answered from.
pub const QUESTION_HITS: u32 = 8;

/// What brokerd gives loopd for a question to memory: passages, whose label the session has by then.
/// A model call that loopd makes turns them into an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passages {
    /// The question.
    pub question: String,
    /// What was found, the best first.
    pub passages: Vec<MemoryPassage>,
    /// Whether everything was searched; the index may be in the making.
    pub complete: bool,
}

/// One passage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryPassage {
    /// Where it stands, by whom, since when, with which label.
    pub place: String,
    /// Its words.
    pub text: String,
}

/// JSON Schema of what `ask_memory` takes, as [`recall_parameters`] is for `recall`.
pub fn ask_memory_parameters() -> Value {
    json!({
        "type": "object",
        "properties": {"question": {"type": "string", "maxLength": 1000}},
        "required": ["question"],
        "additionalProperties": false,
    })
}

/// JSON Schema of what `recall` takes. It is part of every baseline, and brokerd judges by it.
pub fn recall_parameters() -> Value {
    json!({
        "type": "object",
        "properties": {
            "query": {"type": "string", "maxLength": 400},
            "limit": {"type": "integer", "minimum": 1, "maximum": MAX_HITS},
        },
        "required": ["query"],
        "additionalProperties": false,
    })
}

/// JSON Schema of what `memory` takes, as [`recall_parameters`] is for `recall`.
pub fn memory_parameters() -> Value {
    json!({
        "type": "object",
        "properties": {
            "action": {"type": "string", "enum": ["add", "replace", "remove", "list"]},
            "file": {"type": "string", "maxLength": 100},
            "id": {"type": "string", "maxLength": 100},
            "text": {"type": "string", "maxLength": 4000},
        },
        "required": ["action"],
        "additionalProperties": false,
    })
}

/// What a session's name stands behind where a writer is written down.
const SESSION_PREFIX: &str = "session:";
/// How the owner is written down as a writer.
const OWNER: &str = "owner";

/// Who wrote an entry.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Writer {
    /// The owner, by hand.
    Owner,
    /// A session, by the `memory` tool.
    Session(SessionId),
}

/// A text that names no writer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidWriter {
    /// Neither the owner nor a session.
    #[error("a writer is `owner` or `session:ID`")]
    Form,
    /// The session's id breaks its rule.
    #[error(transparent)]
    Session(#[from] InvalidId),
}

impl fmt::Display for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Owner => f.write_str(OWNER),
            Self::Session(session) => write!(f, "{SESSION_PREFIX}{session}"),
        }
    }
}

impl FromStr for Writer {
    type Err = InvalidWriter;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == OWNER {
            return Ok(Self::Owner);
        }
        let session = text
            .strip_prefix(SESSION_PREFIX)
            .ok_or(InvalidWriter::Form)?;
        Ok(Self::Session(SessionId::new(session)?))
    }
}

impl TryFrom<String> for Writer {
    type Error = InvalidWriter;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Writer> for String {
    fn from(writer: Writer) -> Self {
        writer.to_string()
    }
}

/// One entry of a memory file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryEntry {
    /// Its id; none where what the file says of it can't be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<EntryId>,
    /// When it was written, RFC 3339 in UTC. Of a text without such a word: when its file was.
    pub time: String,
    /// Who wrote it; none where that can't be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writer: Option<Writer>,
    /// Its writer's label at that time, joined with those of whoever wrote it before.
    pub label: Label,
    /// The text.
    pub text: String,
    /// What is wrong with it in its file, if something is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_named_owner_is_not_the_owner() {
        let session = Writer::Session(SessionId::new("owner").unwrap());
        assert_eq!(session.to_string(), "session:owner");
        for writer in [Writer::Owner, session] {
            assert_eq!(writer.to_string().parse::<Writer>().unwrap(), writer);
        }
        for bad in [
            "",
            "Owner",
            "chat-1",
            "session:",
            "session:A",
            "session:a b",
        ] {
            assert!(bad.parse::<Writer>().is_err(), "{bad}");
        }
    }
}
