//! What a turn is given at its start.

use crate::config::{Compact, Summarise};
use crate::tools::Catalog;
use bxcore::id::{ModelCallId, SessionId, TurnId};
use bxcore::label::Label;
use bxcore::money::{MicroUsd, Price};
use bxcore::transcript::{Epoch, Open, User};
use bxcore::usage::Usage;
use std::sync::Arc;

use crate::prompt::KeptReasoning;

/// Limits of one turn, from the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How many model calls may ask for tools; one more may only answer.
    pub tool_iterations: u32,
    /// The most tokens of one answer.
    pub answer_tokens: u32,
    /// The cap on a tool's result and on a call's arguments, in bytes.
    pub tool_result_bytes: u32,
}

/// Model calls of this turn that no entry tells of, as the store charged them: those whose end was
/// never seen, and those that were made beside the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lost {
    /// Their usage.
    pub usage: Usage,
    /// Their cost.
    pub cost: MicroUsd,
}

/// Everything that a turn knows of the world.
#[derive(Debug, Clone)]
pub struct TurnContext {
    /// The session.
    pub session: SessionId,
    /// The session's label before the turn, as the authority's ledger has it.
    pub label: Label,
    /// The first number that no model call of this session has had, reserved ones included.
    pub next_model_call: ModelCallId,
    /// The limits.
    pub limits: Limits,
    /// What the model's tokens cost.
    pub price: Price,
    /// What becomes of the model's reasoning.
    pub reasoning: KeptReasoning,
    /// When the conversation is summed up.
    pub compact: Arc<Compact>,
    /// Whether long results are summed up.
    pub summarise: Summarise,
    /// The tools beyond the core ones.
    pub catalog: Arc<Catalog>,
    /// What earlier starts of a resumed turn lost.
    pub lost: Lost,
}

/// The entries that a turn begins with.
#[derive(Debug, Clone)]
pub struct Opening {
    /// The session's first entry, if it is new.
    pub open: Option<Open>,
    /// The new epoch, if one is due.
    pub epoch: Option<Epoch>,
    /// The message.
    pub user: User,
}

impl Opening {
    /// The turn.
    pub fn turn(&self) -> TurnId {
        self.user.turn
    }
}
