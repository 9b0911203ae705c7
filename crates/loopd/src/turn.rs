//! The turn: one message of a person worked to one final answer, as a pure state machine.
//!
//! It takes what happened ([`Input`]) and says what to do next ([`Command`]). It does no I/O, reads
//! no clock, and holds no state that the transcript doesn't: after a crash [`Turn::resume`] folds
//! the entries of the unfinished turn and goes on.
//!
//! The shell around it performs each command in order and feeds back what came of it:
//!
//! ```ignore
//! let (mut turn, first) = Turn::begin(context, conversation, opening)?;
//! let mut queue = VecDeque::from(first);
//! while let Some(command) = queue.pop_front() {
//!     let input = match command {
//!         Command::Commit(commit) => match store.commit(batch_of(commit)).await {
//!             Ok(committed) => Input::Committed { reserved: committed.reserved.map(refusal_of) },
//!             Err(error) => Input::CommitFailed { problem: error.problem() },
//!         },
//!         Command::CallModel(call) => {
//!             let permit = gate.acquire(…).await;
//!             let body = turn.body(permit.slot())?;
//!             stream(body, turn.answer_stream()).await   // Answered, CallFailed or CallLost; on a stop too
//!         }
//!         Command::RunTool(run) => Input::ToolEnded { call: run.call, result: run_tool(run).await },
//!         Command::Announce(event) => { events.send(event); continue }
//!         Command::End(report) => return report,
//!         // Given while one of the two above is under way, whose end still comes as an input.
//!         Command::StopModel { .. } | Command::StopTool { .. } => { cancel(); continue }
//!     };
//!     queue.extend(turn.on(input)?);
//! }
//! ```
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
mod machine;
mod results;
mod resume;
mod running;

pub use command::{Command, Commit, ModelCall, Reserve, RunTool, Settle};
pub use context::{Limits, Lost, Opening, TurnContext};
pub use input::{Axis, Input, Refusal, Spent};
pub use machine::{IllegalInput, NoEpoch, NoModelCall, Turn};
pub use resume::{ResumeError, unfinished};

/// The least that the reply's maximum shrinks to where a budget is nearly used up, in tokens.
pub const MIN_REPLY_TOKENS: u32 = 64;
