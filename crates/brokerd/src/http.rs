//! The routes of brokerd: who may ask what, and what the broker says.

mod approvals;
mod calls;
mod mcp;
mod owner;
mod providers;
mod router;
mod sessions;

pub use router::router;
