//! How a child ended, as its parent's model reads it.

use bxcore::code::Code;
use bxcore::delegation::Receipt;
use bxcore::id::SessionId;
use bxcore::label::Label;
use bxcore::money::MicroUsd;
use bxcore::problem::Problem;
use bxcore::transcript::{CallOutcome, TurnOutcome};
use bxcore::usage::Usage;
use bxcore::wire::brokerd::CallResult;

/// How a child ended. Exactly one of these reaches the parent, whatever crashes in between: it is
/// read from what the child's transcript says, or was told when that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChildEnd {
    /// The child.
    pub child: SessionId,
    /// How its turn ended.
    pub outcome: TurnOutcome,
    /// Its answer, or as much of it as there is where a limit cut it short.
    pub answer: String,
    /// Why, unless it completed.
    pub problem: Option<Problem>,
    /// Its label at the end: what it read is in its answer, and in how it failed.
    pub label: Label,
    /// What it used itself.
    pub usage: Usage,
    /// What it cost itself.
    pub cost: MicroUsd,
    /// The SHA-256 of its whole transcript as hex; none where it has no end.
    pub log_sha256: Option<String>,
}

impl ChildEnd {
    /// The result of the call that asked for it. `session` is the parent's label with the child's
    /// joined to it; the answer is cut to `max_chars` characters.
    pub fn result(&self, session: Label, max_chars: u32) -> CallResult {
        let outcome = match self.outcome {
            TurnOutcome::Completed => CallOutcome::Ok,
            _ => CallOutcome::Failed,
        };
        let (code, text) = match &self.problem {
            None => (None, self.cut(max_chars)),
            Some(problem) => (Some(problem.code), self.failure(problem, max_chars)),
        };
        let code = code.or((outcome != CallOutcome::Ok).then_some(Code::Internal));
        let content = format!("{}\n\n{text}", self.receipt());
        CallResult {
            outcome,
            code,
            raw_bytes: content.len() as u64,
            content,
            label: self.label,
            session_label: session,
            audit: None,
            charge: None,
            replayed: false,
        }
    }

    fn receipt(&self) -> Receipt<'_> {
        Receipt {
            child: &self.child,
            outcome: self.outcome,
            label: self.label,
            usage: self.usage,
            cost: self.cost,
            log_sha256: self.log_sha256.as_deref(),
        }
    }

    /// Why it failed, and what there is all the same.
    fn failure(&self, problem: &Problem, max_chars: u32) -> String {
        let most = usize::try_from(max_chars).unwrap_or(usize::MAX);
        let why: String = problem.to_string().chars().take(most).collect();
        if self.answer.is_empty() {
            return why;
        }
        format!("{why}\n\nWhat it had by then:\n{}", self.cut(max_chars))
    }

    fn cut(&self, max_chars: u32) -> String {
        let most = usize::try_from(max_chars).unwrap_or(usize::MAX);
        match self.answer.char_indices().nth(most) {
            None => self.answer.clone(),
            Some((at, _)) => {
                let kept = self.answer.get(..at).unwrap_or_default();
                format!(
                    "{kept}\n[cut: the whole answer is in session {}]",
                    self.child
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(answer: &str, problem: Option<Problem>) -> ChildEnd {
        ChildEnd {
            child: SessionId::new("sub-a-1").unwrap(),
            outcome: match problem {
                None => TurnOutcome::Completed,
                Some(_) => TurnOutcome::Failed,
            },
            answer: answer.to_owned(),
            problem,
            label: Label::TOP,
            usage: Usage::default(),
            cost: MicroUsd::ZERO,
            log_sha256: Some("0123456789abcdef0123".to_owned()),
        }
    }

    #[test]
    fn an_answer_has_its_receipt_and_is_cut_between_characters() {
        let result = end("äöü", None).result(Label::TOP, 2);
        assert_eq!(result.outcome, CallOutcome::Ok);
        assert_eq!(
            result.content,
            "[sub-a-1 completed · secret, untrusted · 0 model calls, 0 tokens read, 0 written · \
             $0.000000 · log 0123456789abcdef]\n\näö\n[cut: the whole answer is in session sub-a-1]"
        );
    }

    #[test]
    fn a_failure_is_never_completed_and_carries_the_label_too() {
        let problem = Problem::new(Code::EmptyAnswer, "The model answered nothing");
        let result = end("", Some(problem)).result(Label::TOP, 100);
        assert_eq!(result.outcome, CallOutcome::Failed);
        assert_eq!(result.code, Some(Code::EmptyAnswer));
        assert_eq!(result.label, Label::TOP);
        assert!(result.content.contains("The model answered nothing"));
    }
}
