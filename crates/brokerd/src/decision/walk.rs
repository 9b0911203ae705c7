//! The walk itself: rule after rule, up to the first that fails.

use super::grants;
use super::question::Question;
use super::rules::{self, Said};
use bxcore::code::Code;
use bxcore::wire::brokerd::{Rule, Step, Verdict, Walk};

/// A decision, and what follows from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The steps that led to it.
    pub walk: Walk,
    /// What follows.
    pub next: Next,
    /// What asks the owner before each use, where something does.
    pub asked_by: Option<&'static str>,
}

/// What follows from a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Every rule holds: it runs.
    Run,
    /// Only the owner's answer is missing.
    Ask,
    /// Something is not known yet, as when a decision is explained without arguments.
    Unclear,
    /// It does not run, for this reason.
    Refuse(Code),
}

/// Walks the rules in their order and stops at the first that fails.
pub fn decide(question: &Question<'_>) -> Decision {
    let Some(tool) = question.tool else {
        let (code, because) = rules::unknown(question);
        let step = Step {
            rule: Rule::Known,
            verdict: Verdict::Fail,
            because,
        };
        return Decision {
            walk: Walk {
                steps: vec![step],
                denied: Some(code),
                grant: None,
            },
            next: Next::Refuse(code),
            asked_by: None,
        };
    };
    let chosen = grants::choose(question, tool);
    let mut steps = Vec::with_capacity(Rule::WALK.len());
    let mut next = Next::Run;
    for rule in Rule::WALK {
        let said = match rule {
            Rule::Known => rules::known(question),
            Rule::Arguments => rules::arguments(question),
            Rule::Guardrails => rules::guardrails(question, tool),
            Rule::Grant => rules::grant(question, tool, chosen),
            Rule::Class => rules::class(question, chosen),
            Rule::Integrity => rules::integrity(question, tool, chosen),
            Rule::Secrets => rules::secrets(question),
            Rule::Budget => rules::budget(question, tool),
            Rule::Approval => rules::approval(question, tool, chosen),
        };
        let (verdict, because) = match said {
            Said::Pass(because) => (Verdict::Pass, because),
            Said::Open(because) => {
                next = if rule == Rule::Approval && next == Next::Run {
                    Next::Ask
                } else {
                    Next::Unclear
                };
                (Verdict::Open, because)
            }
            Said::Fail(code, because) => {
                next = Next::Refuse(code);
                (Verdict::Fail, because)
            }
        };
        steps.push(Step {
            rule,
            verdict,
            because,
        });
        if verdict == Verdict::Fail {
            break;
        }
    }
    let denied = match next {
        Next::Refuse(code) => Some(code),
        Next::Run | Next::Ask | Next::Unclear => None,
    };
    let grant = chosen.map(|chosen| chosen.number);
    Decision {
        walk: Walk {
            steps,
            denied,
            grant,
        },
        next,
        asked_by: rules::asked_by(question, tool, chosen),
    }
}
