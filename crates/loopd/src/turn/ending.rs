//! How a turn ends, in the transcript and for whoever asked.

use super::input::{Axis, Refusal};
use bxcore::code::Code;
use bxcore::money::MicroUsd;
use bxcore::problem::Problem;
use bxcore::transcript::TurnOutcome;

/// An end with its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ending {
    pub(super) outcome: TurnOutcome,
    pub(super) problem: Option<Problem>,
    /// A remark on an end that is no problem.
    pub(super) remark: Option<String>,
}

impl Ending {
    pub(super) fn completed(remark: Option<String>) -> Self {
        Self {
            outcome: TurnOutcome::Completed,
            problem: None,
            remark,
        }
    }

    fn with(outcome: TurnOutcome, problem: Problem) -> Self {
        Self {
            outcome,
            problem: Some(problem),
            remark: None,
        }
    }

    /// The end that a problem of a model call makes.
    pub(super) fn of_call(problem: Problem) -> Self {
        let outcome = match problem.code {
            Code::ContextFull => TurnOutcome::ContextFull,
            Code::BudgetExhausted => TurnOutcome::Halted,
            Code::Stopped => TurnOutcome::Stopped,
            _ => TurnOutcome::Failed,
        };
        Self::with(outcome, problem)
    }

    pub(super) fn stopped() -> Self {
        let problem = Problem::new(Code::Stopped, "The turn was stopped");
        Self::with(TurnOutcome::Stopped, problem)
    }

    pub(super) fn context_full(used: u64, context: u64) -> Self {
        let problem = Problem::new(
            Code::ContextFull,
            "The conversation no longer fits the model's context",
        )
        .detail(format!("{used} of {context} tokens are used"))
        .hint("Begin a new session, or use a model with a larger context.");
        Self::with(TurnOutcome::ContextFull, problem)
    }

    pub(super) fn empty(thought_to_the_end: bool, max_tokens: u32) -> Self {
        let problem = Problem::new(Code::EmptyAnswer, "The model answered nothing");
        let problem = if thought_to_the_end {
            problem
                .detail(format!("all {max_tokens} tokens went into its reasoning"))
                .hint("Raise `answer_tokens` in loopd.toml.")
        } else {
            problem.hint("Ask again, or use another model.")
        };
        Self::with(TurnOutcome::Failed, problem)
    }

    pub(super) fn iterations_exhausted(rounds: u32) -> Self {
        let problem = Problem::new(
            Code::IterationsExhausted,
            "The model went on calling tools instead of answering",
        )
        .detail(format!("after {rounds} rounds it may only answer"))
        .hint("Ask for less at a time, or raise `tool_iterations` in loopd.toml.");
        Self::with(TurnOutcome::Failed, problem)
    }

    /// The end of a turn whose model repeats itself, and does so even when it may only answer.
    pub(super) fn in_circles(rounds: u32) -> Self {
        let problem = Problem::new(
            Code::IterationsExhausted,
            "The model repeated the same tool calls instead of answering",
        )
        .detail(format!("after {rounds} rounds it may only answer"))
        .hint("Ask in other words, or use another model.");
        Self::with(TurnOutcome::Failed, problem)
    }

    pub(super) fn refused(refusal: &Refusal) -> Self {
        let amount = |value: u64| match refusal.axis {
            Axis::Tokens => format!("{value} tokens"),
            Axis::Usd => {
                let micros = i64::try_from(value).unwrap_or(i64::MAX);
                let usd = MicroUsd::from_micros(micros).unwrap_or(MicroUsd::MAX);
                format!("${usd}")
            }
        };
        let problem = Problem::new(Code::BudgetExhausted, "A limit of the budget is reached")
            .detail(format!(
                "the account `{}` has {} left of {}",
                refusal.account,
                amount(refusal.left),
                amount(refusal.limit)
            ))
            .hint("Raise the limit under [guardrails] in loopd.toml.");
        Self::with(TurnOutcome::Halted, problem)
    }

    pub(super) fn not_stored(problem: Problem) -> Self {
        Self::with(TurnOutcome::Failed, problem)
    }

    /// The same end, with why no summary made room, where room is what was missing.
    pub(super) fn but(mut self, not_compacted: Option<&Problem>) -> Self {
        if let (Some(problem), Some(why)) = (&mut self.problem, not_compacted)
            && problem.code == Code::ContextFull
        {
            let detail = problem.detail.take().unwrap_or_default();
            problem.detail = Some(format!("{detail}; it could not be summed up: {why}"));
        }
        self
    }

    pub(super) fn code(&self) -> Option<Code> {
        self.problem.as_ref().map(|problem| problem.code)
    }

    /// The reason for the transcript.
    pub(super) fn detail(&self) -> Option<String> {
        let shown = self.problem.as_ref().map(ToString::to_string);
        shown.or_else(|| self.remark.clone())
    }
}
