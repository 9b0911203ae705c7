//! What brokerd answers about MCP servers, to the owner alone.
//!
//! | route | takes | gives |
//! |---|---|---|
//! | `GET /v1/mcp` | | `Vec<McpServer>`, as far as it is known without asking a server |
//! | `POST /v1/mcp/{server}/look` | | [`McpServer`]: the server was asked for its tools |
//! | `POST /v1/mcp/{server}/trust` | [`McpTrust`] | [`McpChanged`] |
//! | `POST /v1/mcp/{server}/untrust` | [`McpUntrust`] | [`McpChanged`] |

use crate::id::McpServerName;
use serde::{Deserialize, Serialize};

/// A server, and what is known of its tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpServer {
    /// Its name in `brokerd.toml`.
    pub name: McpServerName,
    /// How it is reached: `sandbox`, or its address.
    pub place: String,
    /// Its tools, by name: those that it has, as it said last, and those that are pinned.
    pub tools: Vec<McpTool>,
}

/// A tool of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpTool {
    /// Its own name.
    pub name: String,
    /// Whether it is what the owner trusts.
    pub state: McpState,
    /// What it is, as the server said last.
    pub seen: Option<McpText>,
    /// What the owner trusts.
    pub pinned: Option<McpText>,
}

/// Whether a tool is what the owner trusts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum McpState {
    /// It is, as far as is known.
    Pinned,
    /// The owner has not trusted it.
    New,
    /// It was another when the owner trusted it.
    Changed,
    /// It is trusted, and the server has it no more.
    Gone,
}

impl McpState {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pinned => "pinned",
            Self::New => "new",
            Self::Changed => "changed",
            Self::Gone => "gone",
        }
    }
}

/// All of a tool that a model would read, as the server wrote it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpText {
    /// The SHA-256 over all of it, with the name, as hex.
    pub sha256: String,
    /// The description.
    pub description: String,
    /// The schema of its arguments, byte for byte.
    pub schema: String,
}

/// The owner trusts tools as they were seen last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct McpTrust {
    /// Which, each with the hash of what the owner has read.
    pub tools: Vec<McpPin>,
}

/// A tool as the owner has read it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct McpPin {
    /// Its own name.
    pub name: String,
    /// The hash of what was read.
    pub sha256: String,
}

/// The owner trusts tools no more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct McpUntrust {
    /// Which; all of the server's if left out.
    #[serde(default)]
    pub tool: Option<String>,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct McpChanged {
    /// The tools that it was about, by name.
    pub tools: Vec<String>,
    /// The number of the record in the audit log; none where nothing changed.
    pub audit: Option<u64>,
}
