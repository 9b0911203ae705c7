//! Tools of MCP servers: what is known of them, calls of them, and the owner's word on them.

mod book;
mod keep;
mod owner;
mod serve;

pub use book::Book;
pub(super) use keep::McpJob;
pub(super) use serve::Served;
