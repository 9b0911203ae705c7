//! What a decision would be, without making it: nothing runs and nothing is recorded.

use super::core::{Core, Fault};
use crate::decision::{Arguments, Question, decide};
use crate::ledger::LedgerError;
use bxcore::guardrails::ToolRules;
use bxcore::label::Label;
use bxcore::wire::brokerd::{ExplainRequest, Walk};

impl Core {
    /// Walks the rules for a call that is not made.
    pub(super) fn explain(&mut self, request: &ExplainRequest) -> Result<Walk, Fault> {
        let (label, rules) = self.judged_by(request)?;
        let body = request.arguments.as_deref();
        if let Some(walk) = self.explain_model(&request.tool, body, label, &rules)? {
            return Ok(walk);
        }
        let tool = self.policy.tools.get(&request.tool);
        let arguments = match (&request.arguments, tool) {
            (Some(text), Some(tool)) => Arguments::read(text, &tool.judged.schema),
            _ => Arguments::NotGiven,
        };
        let spec = tool.map(|tool| tool.spec());
        let body = self.policy.body(&request.tool, &arguments);
        // loopd sets aside what a call may cost; here that is taken as done.
        let reserved = spec.and_then(|tool| tool.reserve);
        let facts = self.facts(&request.tool, spec, &arguments, body.as_ref(), reserved)?;
        let decision = decide(&Question {
            name: &request.tool,
            tool: spec,
            arguments: &arguments,
            label,
            rules: &rules,
            grants: &self.policy.grants,
            facts: &facts,
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
