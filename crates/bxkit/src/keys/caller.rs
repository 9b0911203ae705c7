//! Who calls.

use bxcore::role::Role;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Who has shown a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Caller {
    /// Another role.
    Role(Role),
    /// The owner: the CLI, or the supervisor for them.
    Owner,
}

/// A word that names no caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is neither a role nor `owner`")]
pub struct UnknownCaller(pub String);

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Role(role) => role.fmt(f),
            Self::Owner => f.write_str("owner"),
        }
    }
}

impl TryFrom<String> for Caller {
    type Error = UnknownCaller;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        match text.parse() {
            Ok(role) => Ok(Self::Role(role)),
            Err(_) if text == "owner" => Ok(Self::Owner),
            Err(_) => Err(UnknownCaller(text)),
        }
    }
}

impl From<Caller> for String {
    fn from(caller: Caller) -> Self {
        caller.to_string()
    }
}
