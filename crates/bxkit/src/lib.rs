//! What every role needs of the world: sockets, configuration, streams, the daemon shell.
//!
//! Knows nothing of sessions, decisions or models: a role brings those, this crate brings the
//! ground under it. Whatever two roles must agree on is in `bxcore` instead.

pub mod audit_reader;
pub mod config;
pub mod confine;
pub mod daemon;
pub mod exit;
pub mod fault;
pub mod fsx;
pub mod home;
pub mod keys;
pub mod metrics;
pub mod report;
pub mod rpc;
pub mod sse;
