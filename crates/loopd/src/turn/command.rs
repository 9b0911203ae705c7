//! What a turn wants done.

use crate::prompt::Stage;
use crate::tools::Target;
use bxcore::id::{BackendName, CallId, ModelCallId, TurnId};
use bxcore::money::MicroUsd;
use bxcore::tool::ToolName;
use bxcore::transcript::Entry;
use bxcore::usage::{Spend, Usage, UsageSource};
use bxcore::wire::loopd::{TurnEvent, TurnReport};

/// One thing to do. Commands are performed in the order in which they are given.
#[derive(Debug, Clone)]
pub enum Command {
    /// Store this in one transaction, then say `Committed` or `CommitFailed`.
    Commit(Commit),
    /// Make this model call, then say `Answered`, `CallFailed` or `CallLost`. The body comes from `Turn::body`.
    CallModel(ModelCall),
    /// End the model call under way. Its end is awaited all the same.
    StopModel {
        /// Which.
        model_call: ModelCallId,
    },
    /// Run this tool, then say `ToolEnded`.
    RunTool(RunTool),
    /// End the tool call under way. Its end is awaited all the same.
    StopTool {
        /// Which.
        call: CallId,
    },
    /// Tell whoever watches.
    Announce(TurnEvent),
    /// The turn is over; nothing follows.
    End(Box<TurnReport>),
}

/// One transaction of the store.
#[derive(Debug, Clone)]
pub struct Commit {
    /// The turn.
    pub turn: TurnId,
    /// Entries for the transcript.
    pub entries: Vec<Entry>,
    /// Whether the turn is to be noted as under way.
    pub opens_turn: bool,
    /// Whether the turn is over with this.
    pub closes_turn: bool,
    /// Which account pays.
    pub payer: Payer,
    /// A reservation to settle.
    pub settle: Option<Settle>,
    /// A reservation to give back unused.
    pub release: Option<ModelCallId>,
    /// A reservation to make. Refusing it does not undo the rest.
    pub reserve: Option<Reserve>,
}

/// Which account a commit's reservation is made on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payer {
    /// The turn's own.
    Turn,
    /// One for this model call alone, with the limits of a turn: no turn is under way.
    Call(ModelCallId),
}

/// Puts aside what a model call, or a tool call that costs money, may cost at most, on every account up to the root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reserve {
    /// The call.
    pub model_call: ModelCallId,
    /// The most that it can use.
    pub amount: Spend,
    /// The backend that will serve it.
    pub backend: BackendName,
    /// The model.
    pub model: String,
}

/// Charges what a model call used in place of what was reserved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settle {
    /// The call.
    pub model_call: ModelCallId,
    /// What it used.
    pub actual: Spend,
    /// The same as counts.
    pub usage: Usage,
    /// Where the counts come from.
    pub source: UsageSource,
    /// The backend that served it.
    pub backend: BackendName,
    /// The model.
    pub model: String,
}

/// One model call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelCall {
    /// Which.
    pub model_call: ModelCallId,
    /// Whether tools may be called.
    pub stage: Stage,
    /// The most tokens of the answer.
    pub max_tokens: u32,
}

/// One tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunTool {
    /// Which.
    pub call: CallId,
    /// Who runs it.
    pub target: Target,
    /// The tool.
    pub tool: ToolName,
    /// The arguments as text.
    pub arguments: String,
    /// Whether it may have been run before a crash.
    pub resumed: bool,
    /// What is set aside for it, where it costs money.
    pub reserved: Option<MicroUsd>,
}
