//! The turn: one message of a person worked to one final answer, as a pure state machine.
//!
//! It takes what happened ([`Input`]) and says what to do next ([`Command`]). It does no I/O, reads
//! no clock, and holds no state that the transcript doesn't: after a crash [`Turn::resume`] folds
//! the entries of the unfinished turn and goes on.
//!
//! The shell around it (`crate::drive`) performs each command in order and feeds back what came of
//! it; announcements alone are answered by nothing. A stop is a wish: the call or tool under way still
//! ends with an input of its own.
//!
//! | state | takes | and then |
//! |---|---|---|
//! | committing | `Committed`, `CommitFailed` | what the commit was for: a model call, tools, the end |
//! | calling | `Answered`, `CallFailed`, `CallLost` | commits the answer, the end, or the same call again |
//! | running | `ToolEnded` | the next tool; after the last one commits all results |
//! | ended | | |
//!
//! `Stop` is taken in every state. Any other input is an [`IllegalInput`] that changes nothing.

mod answering;
mod calling;
mod command;
mod context;
mod ending;
mod finishing;
mod input;
mod looking;
mod machine;
mod paying;
mod question;
mod results;
mod resume;
mod running;
mod summing;

pub use calling::MIN_REPLY_TOKENS;
pub use command::{Command, Commit, ModelCall, Payer, Reserve, RunTool, Settle};
pub use context::{Limits, Lost, Opening, TurnContext};
pub use input::{Axis, Input, Refusal, Spent};
pub use machine::{IllegalInput, NoEpoch, NoModelCall, Turn};
pub(crate) use results::own_result;
pub use resume::{ResumeError, unfinished};
pub use summing::NothingToSumUp;
