//! MCP servers whose tools are not what the owner trusts, as far as is known without asking them.

use super::finding::Finding;
use crate::connection::Connection;
use bxcore::wire::mcp::{McpServer, McpState};

/// A line for each server.
pub(super) async fn servers(connection: &Connection) -> Vec<Finding> {
    let servers = connection.brokerd.get::<Vec<McpServer>>("/v1/mcp").await;
    // A brokerd that does not answer has a line of its own.
    servers.unwrap_or_default().iter().map(finding).collect()
}

fn finding(server: &McpServer) -> Finding {
    let what = format!("mcp {}", server.name);
    let count = |state| {
        server
            .tools
            .iter()
            .filter(|tool| tool.state == state)
            .count()
    };
    let pinned = count(McpState::Pinned);
    let others: Vec<String> = [McpState::New, McpState::Changed, McpState::Gone]
        .into_iter()
        .filter(|state| count(*state) > 0)
        .map(|state| format!("{} {}", count(state), state.name()))
        .collect();
    if !others.is_empty() {
        let found = format!("{pinned} tools trusted; not offered: {}", others.join(", "));
        let todo = format!(
            "boxmaker mcp show {}, and mcp trust or untrust",
            server.name
        );
        return Finding::warn(what, found, todo);
    }
    if pinned == 0 {
        let todo = format!("boxmaker mcp trust {}", server.name);
        return Finding::warn(what, "no tool of it is trusted", todo);
    }
    Finding::ok(what, format!("{pinned} tools trusted"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Level;
    use McpState::{Changed, Gone, New, Pinned};
    use bxcore::id::McpServerName;
    use bxcore::wire::mcp::McpTool;

    #[test]
    fn what_waits_for_the_owner_is_named() {
        let found = |states: &[McpState]| {
            let tool = |state: &McpState| McpTool {
                name: "t".to_owned(),
                state: *state,
                seen: None,
                pinned: None,
            };
            let finding = finding(&McpServer {
                name: McpServerName::new("s").unwrap(),
                place: "sandbox".to_owned(),
                tools: states.iter().map(tool).collect(),
            });
            (finding.level, finding.found)
        };
        assert_eq!(found(&[Pinned]), (Level::Ok, "1 tools trusted".to_owned()));
        assert_eq!(
            found(&[]),
            (Level::Warn, "no tool of it is trusted".to_owned())
        );
        assert_eq!(
            found(&[Pinned, New, Changed, Changed, Gone]).1,
            "1 tools trusted; not offered: 1 new, 2 changed, 1 gone"
        );
    }
}
