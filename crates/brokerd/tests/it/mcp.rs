//! Tools of MCP servers: trusted by the owner or not used, decided, labelled, and gone afterwards.

mod failing;
mod network;

mod trust;

use crate::support::{Started, TestHome};
use bxcore::id::McpServerName;
use bxcore::problem::Problem;
use bxcore::wire::mcp::{McpPin, McpServer, McpState, McpTrust};
use serde_json::{Value, json};
use std::path::Path;

pub(crate) const GRANT: &str = "max_taint = \"private\"\nuntrusted = false\n";

pub(crate) fn server() -> McpServerName {
    McpServerName::new("s").unwrap()
}

/// A home with the scripted server `s` in the sandbox, and grants for its tools.
pub(crate) struct Scripted {
    pub(crate) test: TestHome,
}

impl Scripted {
    pub(crate) fn new(tools: &[Value]) -> Self {
        Self::configured(tools, "", GRANT)
    }

    /// The same, with more in the server's table and other lines in the grants.
    pub(crate) fn configured(tools: &[Value], more: &str, grant: &str) -> Self {
        let scripted = Self {
            test: TestHome::new(),
        };
        scripted.plan(&json!({}), &json!({"tools": tools}).to_string());
        let probe = Path::new(env!("CARGO_BIN_EXE_brokerd-probe"));
        let plan = scripted.test.beside("plan");
        let mut config = format!(
            "[[mcp]]\nname = \"s\"\ncommand = [\"{}\", \"mcp\", \"{}\"]\nread_only = [\"{}\", \"{}\"]\n{more}\n",
            probe.display(),
            plan.join("plan.json").display(),
            probe.parent().unwrap().display(),
            plan.display(),
        );
        for tool in tools {
            let name = tool["name"].as_str().unwrap();
            config.push_str(&format!("[[grant]]\ntool = \"mcp:s/{name}\"\n{grant}\n"));
        }
        scripted.test.configure(&config);
        scripted
    }

    /// What the server does from its next start on.
    pub(crate) fn plan(&self, faults: &Value, list: &str) {
        self.plan_version(faults, list, "2025-06-18");
    }

    pub(crate) fn plan_version(&self, faults: &Value, list: &str, version: &str) {
        let plan = json!({"faults": faults, "list": list, "version": version});
        std::fs::write(self.plan_file(), plan.to_string()).unwrap();
    }

    /// Where its plan is, which stands on the server's command line.
    pub(crate) fn plan_file(&self) -> String {
        let file = self.test.beside("plan").join("plan.json");
        file.to_str().unwrap().to_owned()
    }
}

pub(crate) fn tool(name: &str, description: &str) -> Value {
    json!({
        "name": name,
        "description": description,
        "inputSchema": {
            "type": "object",
            "properties": {"path": {"type": "string"}},
            "additionalProperties": false,
        },
    })
}

pub(crate) async fn look(started: &Started) -> Result<McpServer, Problem> {
    started.broker.mcp_look(server()).await
}

/// The state of each tool, as a server has it now.
pub(crate) async fn states(started: &Started) -> Vec<(String, McpState)> {
    let looked = look(started).await.unwrap();
    let tools = looked.tools.into_iter();
    tools.map(|tool| (tool.name, tool.state)).collect()
}

/// Reads what the server has, and trusts all of it.
pub(crate) async fn trust_all(started: &Started) {
    let looked = look(started).await.unwrap();
    let tools = looked.tools.into_iter().filter_map(|tool| {
        Some(McpPin {
            name: tool.name,
            sha256: tool.seen?.sha256,
        })
    });
    let trust = McpTrust {
        tools: tools.collect(),
    };
    started.broker.mcp_trust(server(), trust).await.unwrap();
}

/// The names of the server's tools that a session is offered.
pub(crate) async fn offered(started: &Started) -> Vec<String> {
    let tools = started
        .broker
        .tools(crate::support::session("s"))
        .await
        .unwrap();
    let names = tools.into_iter().map(|tool| tool.name.to_string());
    names.filter(|name| name.starts_with("mcp:")).collect()
}
