//! What a decision would be, without making it: nothing runs and nothing is recorded.

use super::core::{Core, Fault};
use crate::decision::{Arguments, Question, decide, unreached};
use crate::ledger::LedgerError;
use bxcore::grant::Grant;
use bxcore::guardrails::ToolRules;
use bxcore::label::Label;
use bxcore::wire::brokerd::{ExplainRequest, Rule, Walk};

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
        let mut walk = decision.walk;
        if let Some(number) = walk.grant {
            let remark = behind(&self.policy.grants, number);
            let steps = walk.steps.iter_mut();
            for step in steps.filter(|step| step.rule == Rule::Grant) {
                step.because.push_str(&remark);
            }
        }
        Ok(walk)
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

/// The grants that a chosen one keeps from ever being chosen, as a remark. It is made for whoever
/// asks, and not for each call.
fn behind(grants: &[Grant], chosen: usize) -> String {
    let unreached = unreached(grants).into_iter();
    let behind = unreached.filter(|unreached| unreached.by == chosen);
    let numbers: Vec<String> = behind.map(|one| one.number.to_string()).collect();
    match numbers.as_slice() {
        [] => String::new(),
        [one] => format!(" (grant {one} names it too, and is never reached)"),
        many => format!(
            " (grants {} name it too, and are never reached)",
            many.join(", ")
        ),
    }
}
