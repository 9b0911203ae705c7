//! What one commit carries: entries of one session's transcript and what goes with them.

use crate::budget::{AccountKey, BudgetRefusal};
use bxcore::guardrails::Limits;
use bxcore::id::{BackendName, ModelCallId, SessionId, TurnId};
use bxcore::transcript::{Entry, Line};
use bxcore::usage::{Spend, Usage, UsageSource};

/// The most entries in one batch.
pub const MAX_BATCH_ENTRIES: usize = 256;
/// The most operations in one batch.
pub const MAX_BATCH_OPS: usize = 64;
/// The longest line of a transcript, in bytes.
pub const MAX_LINE_BYTES: usize = 32 * 1024 * 1024;

/// Entries and operations that are committed together or not at all.
///
/// The operations take effect in their order, after the entries.
#[derive(Debug, Clone)]
pub struct Batch {
    /// The session whose transcript grows.
    pub session: SessionId,
    /// What is appended. The first entry of a new session is `open`.
    pub entries: Vec<Entry>,
    /// What else changes.
    pub ops: Vec<Op>,
}

impl Batch {
    /// A batch in which nothing happens yet.
    pub const fn new(session: SessionId) -> Self {
        Self {
            session,
            entries: Vec::new(),
            ops: Vec::new(),
        }
    }

    /// Adds an entry.
    pub fn entry(mut self, entry: Entry) -> Self {
        self.entries.push(entry);
        self
    }

    /// Adds an operation.
    pub fn op(mut self, op: Op) -> Self {
        self.ops.push(op);
        self
    }
}

/// One change to the budget tree or to a turn's state.
#[derive(Debug, Clone)]
pub enum Op {
    /// The turn that the transcript has open is paid from this account. Also when it is resumed.
    OpenTurn {
        /// The turn.
        turn: TurnId,
        /// Its account.
        account: AccountKey,
    },
    /// The turn ended; its `turn_end` is in the transcript or in this batch.
    CloseTurn {
        /// The turn.
        turn: TurnId,
    },
    /// The account is made, or gets these limits if it is there.
    EnsureAccount(AccountSpec),
    /// An upper bound of a call is held on the whole chain. At most one in a batch; a refusal leaves
    /// the rest of the batch in force and is told in [`Committed::reserved`].
    Reserve(Reservation),
    /// What is held for a call becomes what it cost, with a row in the ledger.
    Settle(Settlement),
    /// What is held for a call is given back: the call was never made.
    Release {
        /// The call.
        call: ModelCallId,
    },
}

impl Op {
    /// The accounts that it names.
    pub(super) const fn accounts(&self) -> [Option<&AccountKey>; 2] {
        match self {
            Self::OpenTurn { account, .. } => [Some(account), None],
            Self::EnsureAccount(spec) => [Some(&spec.key), spec.parent.as_ref()],
            Self::Reserve(reservation) => [Some(&reservation.account), None],
            Self::CloseTurn { .. } | Self::Settle(_) | Self::Release { .. } => [None, None],
        }
    }
}

/// An account as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountSpec {
    /// Its name.
    pub key: AccountKey,
    /// The account above it, which must be there; none for a root. It never changes.
    pub parent: Option<AccountKey>,
    /// Its limits.
    pub limits: Limits,
}

/// An upper bound to hold for a model call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// The account that the call is made under.
    pub account: AccountKey,
    /// The session's number for the call: above every number it used before.
    pub call: ModelCallId,
    /// The upper bound.
    pub amount: Spend,
    /// The backend.
    pub backend: BackendName,
    /// The model's name on the wire.
    pub model: String,
}

/// What became of a model call that something is held for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settlement {
    /// The call.
    pub call: ModelCallId,
    /// What is charged. With [`UsageSource::Lost`] the whole reservation is charged instead.
    pub actual: Spend,
    /// What the call used, for the ledger.
    pub usage: Usage,
    /// Where the figures come from.
    pub source: UsageSource,
}

/// A batch that is on the disk.
#[derive(Debug, Clone)]
pub struct Committed {
    /// The entries with their numbers and time.
    pub lines: Vec<Line>,
    /// Whether the amount is held, if the batch asked for one.
    pub reserved: Option<Result<(), BudgetRefusal>>,
}

/// A batch that contradicts what is stored: a fault of its maker, and nothing of it was done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// The transcript begins with something else than `open`, or with another session's.
    #[error("a transcript begins with the session's own `open` entry, and has no other")]
    Opening,
    /// More entries or operations than one batch may have.
    #[error("a batch has at most {MAX_BATCH_ENTRIES} entries and {MAX_BATCH_OPS} operations")]
    TooMany,
    /// An entry that is longer than a line may be.
    #[error("an entry is {0} bytes long; the limit is {MAX_LINE_BYTES}")]
    LineTooLong(usize),
    /// An entry whose raw JSON holds line ends, or that can't be written as JSON.
    #[error("an entry can't be written as one line of JSON")]
    NotOneLine,
    /// The turn is not the one that the transcript has open.
    #[error("turn {0} is not the one under way")]
    OtherTurn(TurnId),
    /// The transcript does not end this turn.
    #[error("turn {0} is still under way")]
    TurnNotEnded(TurnId),
    /// No account has this name.
    #[error("there is no account `{0}`")]
    NoAccount(AccountKey),
    /// The account hangs below another one.
    #[error("account `{0}` is there, under another parent")]
    OtherParent(AccountKey),
    /// The account would be too far from its root.
    #[error("account `{0}` would be too deep in the tree")]
    TooDeep(AccountKey),
    /// More than one reservation in a batch.
    #[error("a batch reserves for one call at most")]
    TwoReservations,
    /// The number of a model call was used before.
    #[error("model call {0} was numbered before")]
    CallUsed(ModelCallId),
    /// Nothing is held for the call, or no longer.
    #[error("nothing is held for model call {0}")]
    NotReserved(ModelCallId),
    /// So many calls are under way that no more can be kept track of.
    #[error("too many model calls are under way")]
    TooManyCalls,
}
