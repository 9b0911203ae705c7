//! The vocabulary of Boxmaker and the rules that go with it.
//!
//! Pure: no I/O, no async, no clock, no randomness. Everything that two roles must agree on is
//! here, so that a rule is written, documented and tested once.

pub mod code;
pub mod problem;
pub mod role;
