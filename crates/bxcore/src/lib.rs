//! The vocabulary of Boxmaker and the rules that go with it.
//!
//! Everything that two roles must agree on is here, so that a rule is written, documented and tested
//! once. Values go in and come out: nothing here reads, waits, or asks for the time or for chance.

pub mod audit;
pub mod chat;
pub mod code;
pub mod day;
pub mod delegation;
pub mod grant;
pub mod guardrails;
pub mod id;
pub mod json;
pub mod label;
pub mod memory;
pub mod money;
pub mod net;
pub mod problem;
pub mod role;
pub mod text;
pub mod tool;
pub mod transcript;
pub mod usage;
pub mod wire;
