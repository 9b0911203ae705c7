//! One executable for every role: dispatch, supervisor, first run, starter engine.
//!
//! The only crate that depends on roles; it decides nothing that they decide.

mod executable;
mod role;
pub mod starter;
pub mod supervisor;

pub use executable::Executable;
pub use role::run as run_role;
