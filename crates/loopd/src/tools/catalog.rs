//! What a session could call beyond the core tools, as brokerd lists it at the start of a turn.

use super::rank::Index;
use bxcore::tool::ToolSpec;

/// The tools that `find_tool` searches. Built once a turn, shared from then on.
#[derive(Debug, Default)]
pub struct Catalog {
    tools: Vec<ToolSpec>,
    index: Index,
}

impl Catalog {
    /// Builds the catalogue; the order of `tools` makes no difference.
    pub fn new(mut tools: Vec<ToolSpec>) -> Self {
        tools.sort_by(|a, b| a.name.cmp(&b.name));
        tools.dedup_by(|a, b| a.name == b.name);
        let index = Index::new(&tools);
        Self { tools, index }
    }

    /// Every tool, by name.
    pub fn tools(&self) -> &[ToolSpec] {
        &self.tools
    }

    /// The tool of this name.
    pub fn get(&self, name: &str) -> Option<&ToolSpec> {
        let at = self
            .tools
            .binary_search_by(|tool| tool.name.as_str().cmp(name))
            .ok()?;
        self.tools.get(at)
    }

    /// The tools by how well they fit a query, the best first; those that don't fit at all last,
    /// and with a score of zero.
    pub fn ranked(&self, query: &str) -> Vec<(&ToolSpec, f64)> {
        let mut hits: Vec<(&ToolSpec, f64)> =
            self.tools.iter().zip(self.index.scores(query)).collect();
        // The sort is stable and the tools stand by name, so equal scores stay in that order.
        hits.sort_by(|a, b| b.1.total_cmp(&a.1));
        hits
    }

    /// Names that resemble one that nothing has, the most alike first.
    pub fn similar(&self, name: &str) -> Vec<&str> {
        const MAX_SIMILAR: usize = 3;
        self.ranked(name)
            .into_iter()
            .filter(|(_, score)| *score > 0.0)
            .take(MAX_SIMILAR)
            .map(|(tool, _)| tool.name.as_str())
            .collect()
    }
}
