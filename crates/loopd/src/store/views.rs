//! What the store tells of what it keeps.

use crate::budget::{Account, AccountKey};
use bxcore::id::{BackendName, CallId, EpochId, ModelCallId, SessionId, TurnId};
use bxcore::usage::{Spend, Usage, UsageSource};
use bxkit::fsx::careful;
use std::fmt;
use std::io::{self, Read};
use std::path::PathBuf;

/// What had to be put right when the store was opened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Sessions whose last turn has no end yet.
    pub unfinished: Vec<Unfinished>,
    /// Model calls whose end was never seen; each is charged whole, once.
    pub lost_calls: Vec<LostCall>,
    /// Transcripts that were not as they should be.
    pub repaired: Vec<Repair>,
}

/// A turn without an end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfinished {
    /// The session.
    pub session: SessionId,
    /// The turn.
    pub turn: TurnId,
    /// The account that it is paid from; none if the database was lost since.
    pub account: Option<AccountKey>,
}

/// A model call whose end was never seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostCall {
    /// The session.
    pub session: SessionId,
    /// The call.
    pub call: ModelCallId,
    /// The account that it was made under.
    pub account: AccountKey,
    /// What it was charged.
    pub charged: Spend,
}

/// A transcript that was not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repair {
    /// The session.
    pub session: SessionId,
    /// What was done.
    pub what: Repaired,
}

/// What was done about a transcript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repaired {
    /// Lines that its file lacked were added from the journal.
    Completed {
        /// How many bytes.
        bytes: u64,
    },
    /// The end of the file was no entry and was moved into a file of its own.
    SetAside {
        /// That file.
        to: PathBuf,
        /// How many bytes.
        bytes: u64,
    },
    /// The last entry is gone, from file and journal alike.
    LastEntryLost,
    /// The file has entries that the index did not know.
    Adopted {
        /// How many.
        entries: u64,
    },
    /// The transcript can't be read as a whole; the session rests until somebody looks at it.
    Broken {
        /// Why.
        why: String,
    },
}

impl fmt::Display for Repaired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Completed { bytes } => write!(f, "{bytes} bytes were added from the journal"),
            Self::SetAside { to, bytes } => write!(
                f,
                "{bytes} bytes at its end are no entry and were moved to `{}`",
                to.display()
            ),
            Self::LastEntryLost => f.write_str("its last entry is lost"),
            Self::Adopted { entries } => write!(f, "{entries} entries were new to the index"),
            Self::Broken { why } => write!(f, "it can't be read: {why}"),
        }
    }
}

/// The highest numbers that a session has used so far; 0 where none was.
///
/// They can be ahead of its transcript: a lost model call has a number and no entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counters {
    /// Turns.
    pub turn: TurnId,
    /// Epochs.
    pub epoch: EpochId,
    /// Tool calls.
    pub call: CallId,
    /// Model calls.
    pub model_call: ModelCallId,
}

/// An account and its place in the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountView {
    /// Its name.
    pub key: AccountKey,
    /// The account above it.
    pub parent: Option<AccountKey>,
    /// Its figures.
    pub account: Account,
    /// What could still be held under it, the accounts above included; none where nothing limits.
    pub left: bxcore::guardrails::Limits,
}

/// One provider call and what it was charged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerRow {
    /// The session.
    pub session: SessionId,
    /// The session's number for the call.
    pub call: ModelCallId,
    /// The turn, if one was under way.
    pub turn: Option<TurnId>,
    /// The account that it was made under.
    pub account: String,
    /// The backend.
    pub backend: BackendName,
    /// The model's name on the wire.
    pub model: String,
    /// What was charged, on this account and every one above it.
    pub charged: Spend,
    /// What the call used.
    pub usage: Usage,
    /// Where the figures come from.
    pub source: UsageSource,
    /// Whether it cost more than was held for it.
    pub overrun: bool,
    /// When it was settled, RFC 3339 in UTC.
    pub ts: String,
}

/// A transcript as bytes: a file up to a length, and what the file still lacks.
#[derive(Debug)]
pub struct RawLog {
    /// The file.
    pub path: PathBuf,
    /// How much of it belongs to the transcript, in bytes.
    pub file_bytes: u64,
    /// What comes after that; only a full disk keeps it out of the file.
    pub tail: Vec<u8>,
}

impl RawLog {
    /// The length of the whole transcript, in bytes.
    pub fn total_bytes(&self) -> u64 {
        self.file_bytes.saturating_add(self.tail.len() as u64)
    }

    /// A reader of the whole transcript. Blocks.
    pub fn open(self) -> io::Result<impl Read + Send + 'static> {
        let file: Box<dyn Read + Send> = if self.file_bytes == 0 {
            Box::new(io::empty())
        } else {
            let file = careful().read(true).open(&self.path)?;
            let length = file.metadata()?.len();
            if length < self.file_bytes {
                let message = format!("it has {length} of {} bytes", self.file_bytes);
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, message));
            }
            Box::new(file.take(self.file_bytes))
        };
        Ok(file.chain(io::Cursor::new(self.tail)))
    }
}
