//! What is known of the tools of MCP servers. Pure.

use super::serve::Served;
use crate::broker::outgoing::{Body, Errand};
use crate::ledger::{Ledger, LedgerError, ToolTexts};
use crate::mcp::{Place, Server, Servers, ToolText, call_body};
use crate::tools::Tool;
use bxcore::id::McpServerName;
use bxcore::tool::ToolName;
use bxcore::wire::brokerd::CallRequest;
use bxcore::wire::mcp::{McpServer, McpState, McpText, McpTool};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What is known of the tools of the servers that are configured.
#[derive(Debug, Clone, Default)]
pub struct Book {
    servers: Servers,
    seen: ToolTexts,
    pins: ToolTexts,
}

impl Book {
    /// As the ledger has it.
    pub(in crate::broker) fn open(servers: Servers, ledger: &Ledger) -> Result<Self, LedgerError> {
        Ok(Self {
            servers,
            seen: ledger.mcp_seen()?,
            pins: ledger.mcp_pins()?,
        })
    }

    /// The servers that are configured.
    pub fn servers(&self) -> &Servers {
        &self.servers
    }

    fn of<'a>(texts: &'a ToolTexts, server: &McpServerName, tool: &str) -> Option<&'a ToolText> {
        texts.get(server)?.get(tool)
    }

    pub(super) fn seen(&self, server: &McpServerName, tool: &str) -> Option<&ToolText> {
        Self::of(&self.seen, server, tool)
    }

    pub(super) fn pinned(&self, server: &McpServerName, tool: &str) -> Option<&ToolText> {
        Self::of(&self.pins, server, tool)
    }

    /// The names of a server's trusted tools.
    pub(super) fn pinned_names(&self, server: &McpServerName) -> Vec<String> {
        let pins = self.pins.get(server);
        pins.into_iter()
            .flat_map(|pins| pins.keys().cloned())
            .collect()
    }

    /// Whether a list is what the server had already.
    pub(super) fn has(&self, server: &McpServerName, tools: &[ToolText]) -> bool {
        let known = self.seen.get(server);
        known.map_or(0, BTreeMap::len) == tools.len()
            && tools
                .iter()
                .all(|text| self.seen(server, &text.name) == Some(text))
    }

    pub(super) fn see(&mut self, server: McpServerName, tools: Vec<ToolText>) {
        let named = tools.into_iter().map(|text| (text.name.clone(), text));
        self.seen.insert(server, named.collect());
    }

    pub(super) fn pin(&mut self, server: McpServerName, text: ToolText) {
        let pins = self.pins.entry(server).or_default();
        pins.insert(text.name.clone(), text);
    }

    pub(super) fn unpin(&mut self, server: &McpServerName, tool: &str) {
        if let Some(pins) = self.pins.get_mut(server) {
            pins.remove(tool);
        }
    }

    /// The tools that the owner trusts. One whose schema this version can't use any more is left
    /// out.
    pub(in crate::broker) fn tools(&self) -> Vec<Tool> {
        let judged = |(name, server): (&McpServerName, &Server)| {
            let pins = self.pins.get(name);
            let judged = pins.into_iter().flat_map(|pins| pins.values());
            let judged = judged.filter_map(|text| server.judged(text).ok());
            judged.map(Tool::served).collect::<Vec<_>>()
        };
        self.servers.iter().flat_map(judged).collect()
    }

    fn state(&self, server: &McpServerName, tool: &str) -> McpState {
        match (self.seen(server, tool), self.pinned(server, tool)) {
            (Some(seen), Some(pinned)) if seen == pinned => McpState::Pinned,
            (Some(_), Some(_)) => McpState::Changed,
            (None, Some(_)) => McpState::Gone,
            (_, None) => McpState::New,
        }
    }

    /// Whether a name is that of a tool which the owner has not trusted as its server has it now.
    pub(in crate::broker) fn lacks(&self, name: &ToolName) -> bool {
        let Some((server, tool)) = name.mcp() else {
            return false;
        };
        let is_known = self.pinned(&server, tool).is_some() || self.seen(&server, tool).is_some();
        self.servers.contains_key(&server)
            && is_known
            && self.state(&server, tool) != McpState::Pinned
    }

    fn server_of<'a>(&self, name: &'a ToolName) -> Option<(&Server, &'a str)> {
        let (server, tool) = name.mcp()?;
        Some((self.servers.get(&server)?, tool))
    }

    /// The body that a call would send; none where it stays on this box.
    pub(in crate::broker) fn body(&self, name: &ToolName, arguments: &Value) -> Option<String> {
        let (server, tool) = self.server_of(name)?;
        match server.settings().place() {
            Place::Network(_) => Some(call_body(tool, arguments)),
            Place::Sandbox => None,
        }
    }

    /// The host that a call would reach.
    pub(in crate::broker) fn host(&self, name: &ToolName) -> Option<String> {
        match self.server_of(name)?.0.settings().place() {
            Place::Network(url) => Some(url.host().to_owned()),
            Place::Sandbox => None,
        }
    }

    /// The hash of what the owner trusts of a tool; none for one of ours.
    pub(in crate::broker) fn trusted_sha256(&self, name: &ToolName) -> Option<String> {
        let (server, tool) = name.mcp()?;
        self.pinned(&server, tool).map(ToolText::sha256)
    }

    /// What a call is, if it is one of a server's tool.
    pub(in crate::broker) fn served(
        &self,
        request: &CallRequest,
        arguments: &Value,
        body: Option<&Body>,
    ) -> Option<Errand> {
        let (server, tool) = request.tool.mcp()?;
        let pinned = self.pinned(&server, tool)?;
        let served = Served {
            order: crate::mcp::Order {
                tool: tool.to_owned(),
                arguments: arguments.as_object().cloned().unwrap_or_default(),
                sha256: pinned.sha256(),
                session: request.session.clone(),
                body: body.cloned().map(bytes::Bytes::from_owner),
            },
            server,
        };
        Some(Errand::Serve(Box::new(served)))
    }

    /// What the owner is told of a server; none if it is not configured.
    pub(super) fn shown(&self, name: &McpServerName) -> Option<McpServer> {
        let place = match self.servers.get(name)?.settings().place() {
            Place::Sandbox => "sandbox".to_owned(),
            Place::Network(url) => url.to_string(),
        };
        let known = [self.seen.get(name), self.pins.get(name)];
        let names = known
            .into_iter()
            .flatten()
            .flat_map(|tools| tools.keys())
            .collect::<BTreeSet<&String>>();
        let tools = names.into_iter().map(|tool| McpTool {
            name: tool.clone(),
            state: self.state(name, tool),
            seen: self.seen(name, tool).map(text),
            pinned: self.pinned(name, tool).map(text),
        });
        Some(McpServer {
            name: name.clone(),
            place,
            tools: tools.collect(),
        })
    }
}

fn text(text: &ToolText) -> McpText {
    McpText {
        sha256: text.sha256(),
        description: text.description.clone(),
        schema: text.schema.clone(),
    }
}
