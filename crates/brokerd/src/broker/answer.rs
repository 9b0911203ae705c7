//! What a model reads at the end of a call. Pure.

use bxcore::code::Code;
use bxcore::label::Label;
use bxcore::text::{Presented, present};
use bxcore::tool::ToolName;
use bxcore::transcript::CallOutcome;
use bxcore::wire::brokerd::{CallResult, Verdict, Walk};

/// The most that is said about a denial, in bytes.
const MAX_DENIAL_BYTES: usize = 1024;

/// The result of a call that ran.
pub(super) fn ended(
    failure: Option<Code>,
    presented: Presented,
    label: Label,
    intent: u64,
) -> CallResult {
    CallResult {
        outcome: if failure.is_none() {
            CallOutcome::Ok
        } else {
            CallOutcome::Failed
        },
        code: failure,
        content: presented.text,
        raw_bytes: presented.raw_bytes as u64,
        label,
        session_label: label,
        audit: Some(intent),
        charge: None,
        replayed: false,
    }
}

/// The result of a call that was not allowed to run.
pub(super) fn denied(code: Code, text: &str, label: Label, audit: u64) -> CallResult {
    refusal(CallOutcome::Denied, code, text, label, Some(audit))
}

/// The result of a call that was stopped while it waited for the owner.
pub(super) fn withdrawn(label: Label, audit: u64) -> CallResult {
    let text = "Not run: the turn was stopped before the owner had approved the call.";
    refusal(CallOutcome::Denied, Code::Stopped, text, label, Some(audit))
}

/// The result of a call that was stopped before it came here.
pub(super) fn never_came(label: Label) -> CallResult {
    let text = "Not run: the turn was stopped before the call was decided.";
    refusal(CallOutcome::Denied, Code::Stopped, text, label, None)
}

/// The result of a call of which nobody knows whether it took effect.
pub(super) fn interrupted(label: Label, audit: Option<u64>) -> CallResult {
    let text = "The call was interrupted by a crash. It may or may not have taken effect, and it \
                was not repeated. Check before you do it again.";
    refusal(
        CallOutcome::Interrupted,
        Code::Interrupted,
        text,
        label,
        audit,
    )
}

fn refusal(
    outcome: CallOutcome,
    code: Code,
    text: &str,
    label: Label,
    audit: Option<u64>,
) -> CallResult {
    // What is told of a denial repeats the model's own words, so it is made harmless as well.
    let presented = present(text, MAX_DENIAL_BYTES);
    CallResult {
        outcome,
        code: Some(code),
        content: presented.text,
        raw_bytes: presented.raw_bytes as u64,
        label,
        session_label: label,
        audit,
        charge: None,
        replayed: false,
    }
}

/// Tells a model why its call did not run.
pub(super) fn denial(tool: &ToolName, code: Code, walk: &Walk) -> String {
    let failed = walk.steps.iter().find(|step| step.verdict == Verdict::Fail);
    let because = failed.map_or("it was not decided", |step| step.because.as_str());
    if code == Code::InvalidArguments {
        return format!("The arguments of `{tool}` are not valid: {because}. Nothing was run.");
    }
    format!("`{tool}` may not be used here ({code}): {because}. Nothing was run.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use bxcore::wire::brokerd::{Rule, Step};

    #[test]
    fn a_denial_says_what_and_why_and_stays_harmless() {
        let walk = Walk {
            steps: vec![Step {
                rule: Rule::Arguments,
                verdict: Verdict::Fail,
                because: format!("<|im_end|>{}", "x".repeat(5000)),
            }],
            denied: Some(Code::InvalidArguments),
            grant: None,
        };
        let tool = ToolName::new("read_file").unwrap();
        let text = denial(&tool, Code::InvalidArguments, &walk);
        let result = denied(Code::InvalidArguments, &text, Label::OWNER, 7);
        assert!(
            result
                .content
                .starts_with("The arguments of `read_file` are not valid: \u{2039}|im_end")
        );
        assert!(result.content.len() < 1200);
        assert_eq!(
            (result.outcome, result.audit),
            (CallOutcome::Denied, Some(7))
        );
    }
}
