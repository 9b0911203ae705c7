//! What happens to a turn.

use bxcore::chat::ModelAnswer;
use bxcore::id::CallId;
use bxcore::problem::Problem;
use bxcore::usage::Receipt;
use bxcore::wire::brokerd::CallResult;

/// One thing that happened.
#[derive(Debug, Clone)]
pub enum Input {
    /// The commit is stored.
    Committed {
        /// What became of its reservation, if it had one.
        reserved: Option<Result<(), Refusal>>,
    },
    /// The commit is not stored, and nothing of it is.
    CommitFailed {
        /// Why.
        problem: Problem,
    },
    /// The model answered.
    Answered {
        /// The answer.
        answer: ModelAnswer,
        /// What the proxy measured.
        receipt: Receipt,
    },
    /// The model call ended without a whole answer, or was never made.
    CallFailed {
        /// Why.
        problem: Problem,
        /// What it used.
        spent: Spent,
    },
    /// What made the model call died before the answer was whole; what it used will never be known.
    ///
    /// Not for a refusal or a failure of the model server: only a call that nobody answered for may
    /// be made again.
    CallLost {
        /// What is known of it.
        problem: Problem,
    },
    /// The tool call ended, whichever way.
    ToolEnded {
        /// Which.
        call: CallId,
        /// How. `Interrupted` where it was stopped.
        result: CallResult,
    },
    /// Somebody wants the turn to end.
    Stop,
}

impl Input {
    /// The name of the input, for messages.
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Committed { .. } => "committed",
            Self::CommitFailed { .. } => "commit failed",
            Self::Answered { .. } => "answered",
            Self::CallFailed { .. } => "call failed",
            Self::CallLost { .. } => "call lost",
            Self::ToolEnded { .. } => "tool ended",
            Self::Stop => "stop",
        }
    }
}

/// What a failed model call used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Spent {
    /// Nothing: the request never reached the model.
    Nothing,
    /// This much.
    Measured(Receipt),
    /// Nobody can tell, so the whole reservation is charged.
    Unknown,
}

/// Why an account refused a reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The account that has too little left.
    pub account: String,
    /// Of what.
    pub axis: Axis,
    /// The account's limit, in tokens or micro-dollars.
    pub limit: u64,
    /// What is left of it, in the same unit.
    pub left: u64,
}

/// What a limit bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axis {
    /// Tokens.
    Tokens,
    /// Money.
    Usd,
}
