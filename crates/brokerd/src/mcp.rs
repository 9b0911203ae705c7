//! MCP servers: programs in the sandbox, or services elsewhere, whose tools the owner has read and
//! trusted.
//!
//! One connection a call: the server is greeted, says what tools it has, and is called only if the
//! tool is what the owner trusts, byte for byte. What it says of its own tools beyond name,
//! description and schema is not looked at. Nothing here decides whether a call may be made.

mod answer;
mod bodies;
mod conversation;
mod error;
mod failure;
mod limits;
mod listing;
mod schema;
mod server;
mod settings;
mod text;
mod transport;

pub use answer::Called;
pub use bodies::{call_body, opening};
pub use error::McpError;
pub use failure::McpFailure;
pub use limits::{
    LONGEST_SECS, MAX_DESCRIPTION_BYTES, MAX_LINE_BYTES, MAX_LIST_BYTES, MAX_MESSAGES,
    MAX_SCHEMA_BYTES, MAX_SERVERS, MAX_TOOLS,
};
pub use listing::read_list;
pub use schema::check_schema;
pub use server::{Done, Order, Server, Servers};
pub use settings::{Place, Settings};
pub use text::ToolText;
