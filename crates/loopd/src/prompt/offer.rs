//! Which tools the next reply in schema mode can choose from.

use super::convert::found_names;
use crate::tools::{CALL_TOOL, CORE_TOOLS, Catalog, CoreTool, FIND_TOOL, core_tool};
use bxcore::tool::ToolSpec;
use bxcore::transcript::{CallOutcome, Tool};

/// The most found tools that a reply can choose from; the latest found stay.
const MAX_FOUND_TOOLS: usize = 24;

/// What the results so far make of the choice.
#[derive(Debug, Clone, Default)]
pub(super) struct Offer {
    /// The tools that were found, the latest last.
    found: Vec<String>,
    /// Core tools whose result the model is about to read, where calling them again would give it
    /// nothing new. A small model often does just that.
    just_ran: Vec<String>,
}

/// The tools of one reply.
#[derive(Debug)]
pub struct Offered<'a> {
    /// Core tools, without `call_tool`.
    pub core: Vec<&'a CoreTool>,
    /// Tools for `call_tool`.
    pub found: Vec<&'a ToolSpec>,
}

impl Offer {
    /// Takes the result of a call.
    pub(super) fn note(&mut self, tool: &Tool) {
        let name = tool.tool.as_str();
        if tool.outcome != CallOutcome::Ok {
            return;
        }
        if name == FIND_TOOL {
            self.note_found(tool.message.json());
        } else if takes_nothing(name) {
            self.just_ran.push(name.to_owned());
        }
    }

    /// The model spoke, or a person did: what had just run is no longer new.
    pub(super) fn next_round(&mut self) {
        self.just_ran.clear();
    }

    /// The tools of the next reply. A found tool that is gone from the catalogue is left out.
    pub(super) fn tools<'a>(&self, catalog: &'a Catalog) -> Offered<'a> {
        let offered = |tool: &&CoreTool| {
            tool.name != CALL_TOOL && !self.just_ran.iter().any(|name| name == tool.name)
        };
        Offered {
            core: CORE_TOOLS.iter().filter(offered).collect(),
            found: self
                .found
                .iter()
                .filter_map(|name| catalog.get(name))
                .collect(),
        }
    }

    fn note_found(&mut self, message: &str) {
        let names = found_names(message);
        if !names.is_empty() {
            self.just_ran.push(FIND_TOOL.to_owned());
        }
        for name in names {
            self.found.retain(|known| *known != name);
            self.found.push(name);
        }
        let surplus = self.found.len().saturating_sub(MAX_FOUND_TOOLS);
        self.found.drain(..surplus);
    }
}

fn takes_nothing(name: &str) -> bool {
    core_tool(name)
        .and_then(|tool| tool.parameters["properties"].as_object())
        .is_some_and(serde_json::Map::is_empty)
}
