//! The roles a Boxmaker process can be.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// One of the processes that `boxmaker up` starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Sessions, turns, slots, budgets.
    Loopd,
    /// Decisions, labels, audit, tools.
    Brokerd,
    /// The way to a local model.
    Inferproxy,
    /// Memory files, and the search over them and over transcripts.
    Memoryd,
}

impl Role {
    /// Every role, in the order in which the supervisor starts them.
    pub const ALL: [Self; 4] = [Self::Inferproxy, Self::Memoryd, Self::Brokerd, Self::Loopd];

    /// The role's name in configuration, sockets and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Loopd => "loopd",
            Self::Brokerd => "brokerd",
            Self::Inferproxy => "inferproxy",
            Self::Memoryd => "memoryd",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A word that names no role.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a role; the roles are inferproxy, memoryd, brokerd and loopd")]
pub struct UnknownRole(pub String);

impl FromStr for Role {
    type Err = UnknownRole;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|role| role.name() == text)
            .ok_or_else(|| UnknownRole(text.to_owned()))
    }
}
