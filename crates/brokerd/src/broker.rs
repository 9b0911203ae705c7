//! The broker: decides calls, runs them, joins labels, records everything.
//!
//! One thread, the keeper, owns ledger and log and works through jobs in batches, so that calls
//! that come at once share their syncs. Around it the async handle runs tools and waits.

mod answer;
mod approvals;
mod approving;
mod begin;
mod core;
mod dispatch;
mod drive;
mod endorse;
mod explain;
mod finish;
mod handle;
mod job;
mod keeper;
mod lead;
mod mark;
mod mcp;
mod model;
mod open;
mod outgoing;
mod recording;
mod register;
mod show;

pub use core::Policy;
pub use handle::{Broker, MAX_ERRANDS_AT_ONCE, MAX_TOOLS_AT_ONCE};
pub use keeper::{KEEPER_SYNC_MS, MAX_BATCH_JOBS, MAX_QUEUED_JOBS};
pub use mcp::Book;
pub use open::{Opened, Outside, StartError, open, random_boot};

#[cfg(test)]
mod tests;
