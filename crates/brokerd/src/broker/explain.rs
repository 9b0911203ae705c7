//! What a decision would be, without making it: nothing runs and nothing is recorded.

use super::core::{Core, Fault};
use crate::decision::{Arguments, Facts, Question, decide};
use crate::ledger::LedgerError;
use bxcore::guardrails::ToolRules;
use bxcore::label::Label;
use bxcore::wire::brokerd::{ExplainRequest, Walk};

impl Core {
    /// Walks the rules for a call that is not made.
    pub(super) fn explain(&mut self, request: &ExplainRequest) -> Result<Walk, Fault> {
        let (label, rules) = self.judged_by(request)?;
        let tool = self.policy.tools.get(&request.tool);
        let arguments = match (&request.arguments, tool) {
            (Some(text), Some(tool)) => Arguments::read(text, &tool.judged.schema),
            _ => Arguments::NotGiven,
        };
        let decision = decide(&Question {
            name: &request.tool,
            tool: tool.map(|tool| tool.spec()),
            arguments: &arguments,
            label,
            rules: &rules,
            grants: &self.policy.grants,
            facts: &Facts::default(),
        });
        Ok(decision.walk)
    }

    /// Label and rules of the session that is asked about; without one, those of a fresh session
    /// of the owner's.
    fn judged_by(&self, request: &ExplainRequest) -> Result<(Label, ToolRules), LedgerError> {
        let (held, rules) = match &request.session {
            None => (Label::OWNER, ToolRules::default()),
            Some(id) => {
                let row = self.ledger.known_session(id)?;
                (row.label, self.ledger.rules(&row)?)
            }
        };
        Ok((request.label.unwrap_or(held), rules))
    }
}
