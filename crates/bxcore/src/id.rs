//! Names of things: sessions, calls, backends. Each type's constructor holds its rule.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The longest session id, in bytes; it must stay usable as a folder name.
pub const MAX_SESSION_ID_BYTES: usize = 64;
/// The longest backend name, in bytes.
pub const MAX_BACKEND_NAME_BYTES: usize = 32;
/// The longest id of an approval, in bytes.
pub const MAX_APPROVAL_ID_BYTES: usize = 16;
/// The longest name of an MCP server, in bytes.
pub const MAX_MCP_SERVER_NAME_BYTES: usize = 32;

/// The longest name of a memory file, in bytes, without its ending.
pub const MAX_MEMORY_FILE_BYTES: usize = 40;
/// The longest id of a memory entry, in bytes.
pub const MAX_ENTRY_ID_BYTES: usize = 32;
/// What the name of a memory file ends with on disk.
pub const MEMORY_FILE_ENDING: &str = ".md";

/// An id that breaks its rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{shown}` is not a {what}: it must be 1 to {max} characters of a-z, 0-9 and -")]
pub struct InvalidId {
    what: &'static str,
    max: usize,
    shown: String,
}

fn check(what: &'static str, max: usize, text: &str) -> Result<(), InvalidId> {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if (1..=max).contains(&text.len()) && text.bytes().all(allowed) {
        return Ok(());
    }
    // A refused id comes from outside and may be of any length.
    let shown = text.chars().take(80).collect();
    Err(InvalidId { what, max, shown })
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $what:literal, $max:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Checks the rule and builds the id.
            pub fn new(text: impl Into<String>) -> Result<Self, InvalidId> {
                let text = text.into();
                check($what, $max, &text)?;
                Ok(Self(text))
            }

            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidId;
            fn try_from(text: String) -> Result<Self, InvalidId> {
                Self::new(text)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;
            fn from_str(text: &str) -> Result<Self, InvalidId> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text_id! {
    /// The name of a session: `[a-z0-9-]`, 1 to 64 characters.
    SessionId, "session id", MAX_SESSION_ID_BYTES
}
text_id! {
    /// The name of a backend in `inferproxy.toml`.
    BackendName, "backend name", MAX_BACKEND_NAME_BYTES
}

text_id! {
    /// The id of a request for the owner's approval: short enough to type.
    ApprovalId, "approval id", MAX_APPROVAL_ID_BYTES
}
text_id! {
    /// The name of an MCP server in `brokerd.toml`.
    McpServerName, "name of an MCP server", MAX_MCP_SERVER_NAME_BYTES
}

text_id! {
    /// The name of a file in the memory folder, without its ending.
    MemoryFile, "name of a memory file", MAX_MEMORY_FILE_BYTES
}
text_id! {
    /// The id of an entry in a memory file, unique in that file.
    EntryId, "id of a memory entry", MAX_ENTRY_ID_BYTES
}

impl MemoryFile {
    /// What the model and its owner are. Nothing that is untrusted is written here.
    pub fn identity() -> Self {
        Self("identity".to_owned())
    }

    /// Where notes go that name no file.
    pub fn notes() -> Self {
        Self("notes".to_owned())
    }

    /// Reads a name as people and models write it: with its ending or without.
    pub fn parse(text: &str) -> Result<Self, InvalidId> {
        let text = text.trim();
        Self::new(text.strip_suffix(MEMORY_FILE_ENDING).unwrap_or(text))
    }

    /// The name on disk.
    pub fn file_name(&self) -> String {
        format!("{}{MEMORY_FILE_ENDING}", self.0)
    }
}

impl SessionId {
    /// Whether only Boxmaker itself may create sessions of this name (children and council seats).
    ///
    /// Parentage is stored and never read out of an id; this rule only keeps doors from taking a
    /// name that a child could get.
    pub fn is_reserved(&self) -> bool {
        self.0.starts_with("sub-") || self.0.starts_with("seat-")
    }
}

macro_rules! counter {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl $name {
            /// The first one.
            pub const FIRST: Self = Self(1);

            /// The one after this.
            pub const fn next(self) -> Self {
                Self(self.0 + 1)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

counter! {
    /// A session's own count of its tool calls: 1, 2, 3 …, never used twice.
    CallId
}
counter! {
    /// A session's own count of its model calls.
    ModelCallId
}
counter! {
    /// A session's own count of its turns.
    TurnId
}
counter! {
    /// A session's own count of its epochs.
    EpochId
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_ids_hold_their_rule() {
        let long = "a".repeat(65);
        for bad in ["", "A", "a b", "a/b", "..", "ä", "a_b", long.as_str()] {
            assert!(SessionId::new(bad).is_err(), "{bad}");
        }
        for good in ["a", "chat-1", "heartbeat", &long[..64]] {
            assert!(SessionId::new(good).is_ok(), "{good}");
        }
    }

    #[test]
    fn an_id_is_checked_when_it_is_read() {
        assert!(serde_json::from_str::<SessionId>("\"../x\"").is_err());
        assert!(serde_json::from_str::<SessionId>("\"chat-1\"").is_ok());
    }
}
