//! Test support: a scripted model server that checks its callers, a disposable home, fault injection.
//!
//! Only tests and benches link this crate. It panics where a test must stop: on a breach of the
//! protocol, on a command that runs too long, on a process that outlives its test.

#![allow(
    clippy::panic,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test support crate reports by panicking"
)]

pub mod audit;
pub mod contract;
pub mod fault;
pub mod home;
pub mod llama;
pub mod provider;
pub mod transcript;
pub mod wire;
