//! The vocabulary of Boxmaker and the rules that go with it.
//!
//! Pure: no I/O, no async, no clock, no randomness. Everything that two roles must agree on is
//! here, so that a rule is written, documented and tested once.

pub mod audit;
pub mod chat;
pub mod code;
pub mod grant;
pub mod guardrails;
pub mod id;
pub mod json;
pub mod label;
pub mod money;
pub mod problem;
pub mod role;
pub mod text;
pub mod tool;
pub mod transcript;
pub mod usage;
pub mod wire;
