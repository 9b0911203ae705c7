//! Commands of tools, and programs that tools talk with, in a sandbox: a child process that sees
//! little, may little, and ends in time.
//!
//! Three processes. brokerd asks; the launcher, started before brokerd is confined, builds a
//! sandbox with bubblewrap for each command, reads its output and kills it in time; the stage is
//! the sandbox's first process, which gives up the rest of its rights, starts the shell and
//! watches it. Nothing here decides whether a command may run.

mod bubblewrap;
mod capture;
mod client;
mod error;
mod launcher;
mod limits;
mod serving;
mod stage;
mod supervise;
mod usage;
mod wire;

pub use bubblewrap::is_apart_from_sandbox;
pub use client::{Launch, Ran, Sandbox};
pub use error::SandboxError;
pub use launcher::run as run_launcher;
pub use limits::{
    COMMAND_OVERHEAD_SECS, MAX_COMMAND_SECS, MAX_FILE_BYTES, MAX_MEMORY_BYTES, MAX_OUTPUT_BYTES,
    MAX_PROCESSES, MAX_SERVICE_SECS, STARTING_SECS,
};
pub use serving::Serving;
pub use stage::run as run_stage;
pub use wire::{Ended, Job, Program, Service};

/// The word with which an executable is told to be the launcher, after `role`.
pub const LAUNCHER_WORD: &str = "launcher";
/// The word with which it is told to be the stage, after `role`.
pub const STAGE_WORD: &str = "sandbox";
