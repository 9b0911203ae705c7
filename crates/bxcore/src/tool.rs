//! What a tool is: its name, what it takes, and what it risks.

use crate::delegation::SUBAGENT;
use crate::id::{BackendName, McpServerName};
use crate::memory::{ASK_MEMORY, MEMORY, RECALL};
use crate::money::MicroUsd;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// The longest tool name, in bytes.
pub const MAX_TOOL_NAME_BYTES: usize = 96;

/// What the name begins with by which a whole session's model calls are decided.
pub const PROVIDER_PREFIX: &str = "provider:";

/// What the names of tools of MCP servers begin with.
pub const MCP_PREFIX: &str = "mcp:";

/// The tools of the tools array, in its order. All others are found and called through the last two.
pub const CORE_TOOLS: [&str; 6] = [
    "clock",
    RECALL,
    MEMORY,
    ASK_MEMORY,
    "find_tool",
    "call_tool",
];

/// Every tool that comes with Boxmaker, the core tools among them. Others are of MCP servers.
pub const BUILT_IN_TOOLS: [&str; 14] = [
    ASK_MEMORY,
    "call_tool",
    "clock",
    "consult",
    "find_tool",
    "http_fetch",
    "list_dir",
    MEMORY,
    "read_file",
    RECALL,
    "search_files",
    "shell",
    SUBAGENT,
    "write_file",
];

/// Whether loopd answers a tool itself. Nobody decides such a one: it reaches nothing but the
/// session, or stands for a tool that is decided.
pub fn is_loopds_own(name: &str) -> bool {
    let is_core = CORE_TOOLS.contains(&name) && ![RECALL, MEMORY, ASK_MEMORY].contains(&name);
    is_core || name == SUBAGENT
}

/// The name of a tool: `read_file`, `provider:NAME`, or `mcp:<server>/<tool>`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ToolName(String);

/// A text that can't name a tool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` can't be the name of a tool: 1 to 96 characters of a-z, A-Z, 0-9 and _ - : / .")]
pub struct InvalidToolName(String);

impl ToolName {
    /// Checks the rule and builds the name.
    pub fn new(text: impl Into<String>) -> Result<Self, InvalidToolName> {
        let text = text.into();
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b"_-:/.".contains(&b);
        if (1..=MAX_TOOL_NAME_BYTES).contains(&text.len()) && text.bytes().all(allowed) {
            return Ok(Self(text));
        }
        Err(InvalidToolName(text.chars().take(80).collect()))
    }

    /// The name by which the model calls to a provider are decided. It is no tool that a model
    /// could call.
    pub fn of_provider(name: &BackendName) -> Self {
        // A backend's name is shorter than a tool's may be, and of fewer characters.
        Self(format!("{PROVIDER_PREFIX}{name}"))
    }

    /// Whether it stands for the model calls to a provider.
    pub fn is_provider(&self) -> bool {
        self.0.starts_with(PROVIDER_PREFIX)
    }

    /// The name of a server's tool.
    ///
    /// # Errors
    /// The tool's own name has other characters than a name may have, or is too long.
    pub fn of_mcp(server: &McpServerName, tool: &str) -> Result<Self, InvalidToolName> {
        if tool.is_empty() {
            return Err(InvalidToolName(String::new()));
        }
        Self::new(format!("{MCP_PREFIX}{server}/{tool}"))
    }

    /// The server and its tool that this names; none if it names no server's.
    pub fn mcp(&self) -> Option<(McpServerName, &str)> {
        let (server, tool) = self.0.strip_prefix(MCP_PREFIX)?.split_once('/')?;
        Some((McpServerName::new(server).ok()?, tool))
    }

    /// Whether it can be the name of a tool here: one that comes with Boxmaker, a server's, or what
    /// stands for a provider. Whether such a server or provider is there is not looked at.
    pub fn is_known(&self) -> bool {
        let named = self.0.strip_prefix(PROVIDER_PREFIX);
        let is_provider = named.is_some_and(|name| BackendName::new(name).is_ok());
        is_provider || self.mcp().is_some() || BUILT_IN_TOOLS.contains(&self.as_str())
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for ToolName {
    type Error = InvalidToolName;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::new(text)
    }
}

impl FromStr for ToolName {
    type Err = InvalidToolName;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::new(text)
    }
}

impl From<ToolName> for String {
    fn from(name: ToolName) -> Self {
        name.0
    }
}

impl fmt::Display for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What could go wrong when a tool runs; guardrail lists take these beside names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RiskTag {
    /// It talks to other machines.
    Network,
    /// It changes files.
    Write,
    /// It runs programs.
    Exec,
    /// It sends the session's data off the box.
    Egress,
    /// It costs money.
    Spend,
    /// It starts a council.
    Subcouncil,
}

impl RiskTag {
    /// Every tag.
    pub const ALL: [Self; 6] = [
        Self::Network,
        Self::Write,
        Self::Exec,
        Self::Egress,
        Self::Spend,
        Self::Subcouncil,
    ];

    /// The tag as it is written in configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::Write => "write",
            Self::Exec => "exec",
            Self::Egress => "egress",
            Self::Spend => "spend",
            Self::Subcouncil => "subcouncil",
        }
    }
}

/// Whether a call of a tool may be made again when its first outcome was lost in a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Repeat {
    /// It reads only, or doing it twice is doing it once.
    Safe,
    /// It has an effect each time; a lost outcome is reported as interrupted.
    Never,
}

/// A tool as it is offered to a model and judged by brokerd.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Its name.
    pub name: ToolName,
    /// One or two sentences for the model.
    pub description: String,
    /// JSON Schema of its arguments: an object that admits no unknown keys.
    pub parameters: serde_json::Value,
    /// What it risks.
    pub tags: BTreeSet<RiskTag>,
    /// Whether it may run again after a crash.
    pub repeat: Repeat,
    /// What must be set aside for a call before it is asked for, where it costs money.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserve: Option<MicroUsd>,
}
