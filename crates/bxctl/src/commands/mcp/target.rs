//! What is typed for a server, or for one tool of it. Pure.

use bxcore::id::{InvalidId, McpServerName};
use bxcore::tool::MCP_PREFIX;
use bxcore::wire::mcp::{McpServer, McpTool};
use std::str::FromStr;

/// A server, or one tool of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub(super) server: McpServerName,
    pub(super) tool: Option<String>,
}

impl Target {
    /// Those of a server's tools that are meant.
    pub(super) fn of(&self, server: McpServer) -> Vec<McpTool> {
        let is_meant = |tool: &McpTool| self.tool.as_ref().is_none_or(|name| *name == tool.name);
        server.tools.into_iter().filter(is_meant).collect()
    }
}

impl FromStr for Target {
    type Err = InvalidId;
    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let text = text.strip_prefix(MCP_PREFIX).unwrap_or(text);
        let (server, tool) = match text.split_once('/') {
            Some((server, tool)) => (server, Some(tool.to_owned())),
            None => (text, None),
        };
        Ok(Self {
            server: McpServerName::new(server)?,
            tool,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_or_a_tool_is_named_as_grants_name_it() {
        for (text, server, tool) in [
            ("time", "time", None),
            ("time/now", "time", Some("now")),
            ("mcp:time/a/b", "time", Some("a/b")),
        ] {
            let target: Target = text.parse().unwrap();
            assert_eq!(
                (target.server.as_str(), target.tool.as_deref()),
                (server, tool)
            );
        }
        assert!("".parse::<Target>().is_err());
        assert!("Time/now".parse::<Target>().is_err());
    }
}
