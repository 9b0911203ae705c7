//! Sessions, turns, slots and budgets: the only role that starts inference.
//!
//! The transcript is the state of a session, the turn a state machine without I/O, and `drive` the
//! asynchronous shell that carries out what turns want done.

pub mod budget;
pub mod config;
pub mod delegation;
pub mod drive;
pub mod http;
pub mod prompt;
mod role;
pub mod schedule;
pub mod session;
pub mod slots;
pub mod store;
pub mod tools;
pub mod turn;

pub use role::run;
