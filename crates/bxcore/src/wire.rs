//! What the roles say to each other: HTTP with JSON bodies over Unix sockets, one file a role.

pub mod approval;
pub mod brokerd;
pub mod inferproxy;
pub mod loopd;
pub mod mcp;
pub mod memoryd;
pub mod provider;
pub mod supervisor;
