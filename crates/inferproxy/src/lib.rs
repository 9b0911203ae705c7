//! Stands before model servers: slots, allowed fields, liveness, metrics, wire dump.
//!
//! Everything that loopd sends to a model server passes here and is checked here: which server,
//! which slot, which fields. It keeps no conversation and starts none.

pub mod backend;
pub mod chat;
pub mod config;
pub mod dump;
pub mod http;
pub mod limits;
pub mod metrics;
pub mod probe;
mod role;
pub mod slots;

pub use role::run;
