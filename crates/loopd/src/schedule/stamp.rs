//! What is known of an entry of the schedule. It is kept over restarts.

use bxcore::code::Code;
use bxcore::id::TurnId;
use bxcore::transcript::TurnOutcome;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// What is known of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// Up to when it is decided what was due.
    pub through: Timestamp,
    /// The last run, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<Run>,
    /// When it was last due and left out, since its session was busy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<Timestamp>,
}

/// A turn that the clock began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// When it was due.
    pub due: Timestamp,
    /// When it began.
    pub began: Timestamp,
    /// Its turn. A session that has not had this turn has not begun the run.
    pub turn: TurnId,
    /// How it ended; none while it has not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// When.
    pub at: Timestamp,
    /// How the turn ended; none where it could not begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<TurnOutcome>,
    /// What was wrong, where something was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
}

impl Stamp {
    /// Of an entry that is seen for the first time: nothing before now is due.
    pub const fn first(now: Timestamp) -> Self {
        Self {
            through: now,
            run: None,
            skipped: None,
        }
    }

    /// Whether a run has begun and not ended.
    pub fn is_running(&self) -> bool {
        self.run.as_ref().is_some_and(|run| run.ended.is_none())
    }
}
