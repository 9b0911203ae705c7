//! Sums the conversation up where it nearly fills the model's context: a model call of its own, and
//! then a new epoch that begins with the summary.
//!
//! Until the summary is committed the old epoch holds. A call for one is made at most once in a
//! row: if it fails, the turn goes on with the conversation as it is.

use super::command::{Command, Commit, ModelCall, Settle};
use super::context::TurnContext;
use super::ending::Ending;
use super::machine::Turn;
use crate::prompt::{Compaction, Conversation, Stage, Summary, summary_text};
use bxcore::chat::ModelAnswer;
use bxcore::code::Code;
use bxcore::id::ModelCallId;
use bxcore::problem::Problem;
use bxcore::transcript::{Entry, Epoch};
use bxcore::usage::Receipt;
use bxcore::wire::loopd::TurnEvent;

/// A conversation of which nothing can be summed up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there is nothing to sum up")]
pub struct NothingToSumUp;

impl Turn {
    /// Sums a conversation up because a person asks for it. No turn is begun: what is committed is
    /// the new epoch alone, with this of memory where that has changed, and the report's answer is the
    /// summary.
    ///
    /// # Errors
    /// There is nothing to sum up, or a turn is under way.
    pub fn sum_up(
        context: TurnContext,
        conversation: Conversation,
        epoch: Option<Epoch>,
        memory: Option<String>,
    ) -> Result<(Self, Vec<Command>), NothingToSumUp> {
        let number = conversation.next_turn();
        let mut turn = Self::new(context, conversation, number);
        let entries: Vec<Entry> = epoch.map(Entry::Epoch).into_iter().collect();
        for entry in &entries {
            turn.conversation.push(entry);
        }
        let most = turn.context.limits.answer_tokens;
        let compaction = turn.conversation.compaction(&turn.context.compact, most);
        let compaction = compaction
            .filter(|_| !turn.conversation.is_in_turn())
            .ok_or(NothingToSumUp)?;
        turn.by_hand = Some(turn.next_model_call);
        turn.fresh_memory = memory;
        let mut commands: Vec<Command> = turn.started().into_iter().collect();
        let first = turn.call_for_summary(compaction, entries);
        commands.push(Command::Commit(first));
        Ok((turn, commands))
    }

    /// What to sum up before the next model call.
    pub(super) fn due_compaction(&self) -> Option<Compaction> {
        if self.not_compacted.is_some() {
            return None;
        }
        let rules = &self.context.compact;
        self.conversation
            .due_compaction(rules, self.context.limits.answer_tokens)
    }

    /// What to sum up where the server says that the conversation doesn't fit, although it seemed to.
    pub(super) fn overflow(&self, problem: &Problem) -> Option<Compaction> {
        let rules = &self.context.compact;
        let is_full = problem.code == Code::ContextFull;
        if !is_full || self.stopping || self.not_compacted.is_some() || !rules.automatic {
            return None;
        }
        self.conversation
            .compaction(rules, self.context.limits.answer_tokens)
    }

    /// Commits entries, which the conversation has already, and reserves the call for a summary.
    pub(super) fn call_for_summary(
        &mut self,
        compaction: Compaction,
        entries: Vec<Entry>,
    ) -> Commit {
        let max_tokens = compaction.max_tokens();
        self.compaction = Some(compaction);
        self.reserve_call(Stage::Summary, max_tokens, entries)
    }

    /// The most tokens that the prompt of the call to be made can have.
    pub(super) fn prompt_bound(&self, max_tokens: u32) -> u64 {
        match (&self.compaction, &self.question) {
            (Some(compaction), _) => self
                .conversation
                .summary_bound(compaction, &self.context.compact),
            (None, Some(question)) => {
                self.conversation
                    .asked_bound(&question.asked, question.result.label, max_tokens)
            }
            (None, None) => self.conversation.prompt_bound(),
        }
    }

    /// The model wrote a summary: the new epoch begins, and the turn goes on in it.
    pub(super) fn summed_up(
        &mut self,
        model: ModelCall,
        answer: &ModelAnswer,
        receipt: Receipt,
        settle: Settle,
    ) -> Vec<Command> {
        let epoch = self.compaction.take().map_or_else(
            || Err(Problem::new(Code::Internal, "Nothing was to be summed up")),
            |compaction| {
                let rules = &self.context.compact;
                let text = summary_text(answer, &self.conversation, &compaction, rules)?;
                let summary = Summary {
                    text: text.clone(),
                    label: self.label,
                    model_call: model.model_call,
                    receipt,
                    cost: settle.actual.usd,
                };
                // A turn's memory is as new as the turn: it was told before its message.
                let memory = match &self.fresh_memory {
                    Some(memory) => memory,
                    None => self.conversation.known_memory(),
                };
                let epoch = self.conversation.compacted(&compaction, summary, memory);
                let epoch =
                    epoch.ok_or_else(|| Problem::new(Code::Internal, "There is no epoch"))?;
                Ok((epoch, text))
            },
        );
        match epoch {
            Ok((epoch, text)) if self.by_hand.is_some() => {
                self.answer = text;
                let event = TurnEvent::Compacted { problem: None };
                let entries = vec![Entry::Epoch(epoch)];
                let end = self.end_settled(entries, Ending::completed(None), settle);
                vec![end, Command::Announce(event)]
            }
            Ok((epoch, _)) => {
                let next = Commit {
                    settle: Some(settle),
                    ..self.call_model(vec![Entry::Epoch(epoch)])
                };
                let event = TurnEvent::Compacted { problem: None };
                vec![Command::Commit(next), Command::Announce(event)]
            }
            Err(problem) => self.without_summary(&Ending::of_call(problem), Some(settle), None),
        }
    }

    /// There is no summary: the turn goes on with the conversation as it is.
    pub(super) fn without_summary(
        &mut self,
        why: &Ending,
        settle: Option<Settle>,
        release: Option<ModelCallId>,
    ) -> Vec<Command> {
        self.compaction = None;
        if self.by_hand.is_some() {
            let mut commit = self.end(Vec::new(), why.clone());
            commit.settle = settle;
            commit.release = release;
            return vec![Command::Commit(commit)];
        }
        self.not_compacted.clone_from(&why.problem);
        let event = TurnEvent::Compacted {
            problem: why.problem.clone(),
        };
        let next = Commit {
            settle,
            release,
            ..self.call_model(Vec::new())
        };
        vec![Command::Announce(event), Command::Commit(next)]
    }
}
