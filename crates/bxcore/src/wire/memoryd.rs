//! What memoryd answers: changes and lists of memory files, the baseline, recall.
//!
//! | route | who | takes | gives |
//! |---|---|---|---|
//! | `POST /v1/memory` | brokerd | [`MemoryChange`] | [`MemoryChanged`] |
//! | `GET /v1/memory` | brokerd, owner | | [`MemoryListing`] |
//! | `GET /v1/memory/{file}` | brokerd, owner | | [`MemoryListing`] of one file |
//! | `GET /v1/baseline/{class}` | loopd, owner | | [`MemoryBaseline`] |
//! | `POST /v1/baseline/{class}/news` | loopd, owner | [`NewsRequest`] | [`MemoryNews`] |
//! | `POST /v1/recall` | brokerd, owner | [`RecallRequest`] | [`Recalled`] |
//!
//! Everything that it gives has a label, and none of it is checked against whoever asks: that label
//! is joined to the reader's before the reader gets the text, which brokerd sees to.

use crate::id::{CallId, EntryId, MemoryFile, SessionId, TurnId};
use crate::label::Label;
use crate::memory::MemoryEntry;
use serde::{Deserialize, Serialize};

/// The longest query, in bytes.
pub const MAX_QUERY_BYTES: usize = 4 * 1024;
/// The most hits that are given.
pub const MAX_HITS: u32 = 20;
/// How many hits are given where nobody says.
pub const DEFAULT_HITS: u32 = 5;

/// A change of a memory file, for a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryChange {
    /// The session.
    pub session: SessionId,
    /// Its number for the call: the same one again changes nothing more.
    pub call: CallId,
    /// The session's label, which what it writes will have.
    pub label: Label,
    /// The file.
    pub file: MemoryFile,
    /// What is to be done with it.
    pub action: MemoryAction,
}

/// What is to be done with a memory file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "lowercase", deny_unknown_fields)]
pub enum MemoryAction {
    /// Add an entry.
    Add {
        /// Its text.
        text: String,
    },
    /// Put another text in an entry's place.
    Replace {
        /// Which.
        id: EntryId,
        /// Its new text.
        text: String,
    },
    /// Take an entry out.
    Remove {
        /// Which.
        id: EntryId,
    },
}

/// A change that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryChanged {
    /// The file that was changed.
    pub file: MemoryFile,
    /// The entry.
    pub id: EntryId,
    /// The label that it has, or had.
    pub label: Label,
    /// Whether it became a note, since the session may not change what it meant to.
    #[serde(default)]
    pub as_note: bool,
}

/// What is in memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryListing {
    /// Where the files are.
    pub folder: String,
    /// The files that can be read.
    pub files: Vec<MemoryFileEntries>,
    /// What is in the folder and can't be read.
    pub unusable: Vec<UnusableMemory>,
}

/// One memory file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryFileEntries {
    /// Its name.
    pub file: MemoryFile,
    /// Its entries, in their order.
    pub entries: Vec<MemoryEntry>,
}

/// Something in the memory folder that can't be part of memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnusableMemory {
    /// Its name.
    pub name: String,
    /// What is wrong with it.
    pub why: String,
}

/// What a session's epoch begins with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryBaseline {
    /// Trusted entries up to a class as one text; empty where there are none.
    pub text: String,
    /// How many more there are that found no room.
    pub left_out: u32,
}

/// Asks what has changed since a session was told what memory holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewsRequest {
    /// The text that it was told last: an earlier [`MemoryBaseline`].
    pub known: String,
}

/// What has changed in memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryNews {
    /// What an epoch would begin with now.
    pub now: MemoryBaseline,
    /// What is in it and was not known, file by file; empty where nothing is.
    pub added: String,
    /// What was known and is in no file any more. What only found no room now is not in it.
    pub removed: String,
}

/// A search.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecallRequest {
    /// Words. Nothing in them has a meaning of its own.
    pub query: String,
    /// How many hits at most; see [`MAX_HITS`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// A session whose own transcript is left out: the one that asks has it before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub except: Option<SessionId>,
}

/// What a search found, the best first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recalled {
    /// The hits.
    pub hits: Vec<Hit>,
    /// Whether everything was searched; the index may be in the making.
    pub complete: bool,
}

/// A passage that fits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hit {
    /// Where it stands.
    pub source: HitSource,
    /// Whose words they are: `owner`, `assistant`, the name of a tool, or `session:ID`.
    pub who: String,
    /// When they were written, RFC 3339 in UTC.
    pub time: String,
    /// Their label.
    pub label: Label,
    /// The words around what fits.
    pub snippet: String,
    /// How well it fits, and how new it is: higher is better.
    pub score: f64,
}

/// Where a passage stands.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "in", rename_all = "lowercase")]
pub enum HitSource {
    /// In a memory file.
    Memory {
        /// Which.
        file: MemoryFile,
        /// The entry; none where its marker can't be read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<EntryId>,
    },
    /// In a transcript.
    Session {
        /// Whose.
        session: SessionId,
        /// In which turn.
        turn: TurnId,
    },
}
