//! Sessions, turns, slots and budgets: the only role that starts inference.

pub mod budget;
pub mod config;
pub mod prompt;
pub mod session;
pub mod store;
pub mod tools;
pub mod turn;
