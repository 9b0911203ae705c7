//! The real executable in a disposable home.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests stop by panicking, in their helpers too"
)]

mod approvals;
mod authority;
mod badinput;
mod badmodel;
mod budget;
mod cli;
mod compaction;
mod consult;
mod dependencies;
mod house;
mod jobs;
mod kills;
mod mcp;
mod memory;
mod provider;
mod real;
mod sandbox;
mod slotless;
mod starter;
mod subagent;
mod supervisor;
mod support;
mod templates;
