//! The crate against real sockets, real processes and a real kernel.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod config;
mod confine;
mod daemon;
#[cfg(feature = "fault-points")]
mod fault;
mod rpc;
mod rpc_socket;
mod rpc_stream;
mod support;
