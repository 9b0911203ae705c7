//! The command line, as a library and as the bxctl executable.
//!
//! A client of the roles: it links none of them. What only the `boxmaker` executable can do
//! (be the supervisor, set up the starter engine, read a role's configuration) comes in through
//! [`Launcher`].

mod changed;
pub mod cli;
mod commands;
mod confirm;
mod connection;
mod context;
mod doctor;
mod failure;
mod holder;
mod init;
mod launcher;
pub mod output;
mod ready;
mod run;
mod turn;

pub use init::template;
pub use launcher::{Launcher, SetupStep, StarterFacts, UpOptions};
pub use ready::{needs_starter, starter_forbidden};
pub use run::run;
