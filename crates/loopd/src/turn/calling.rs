//! Before a model call: how much may be asked for, and whether the budget has it.

use super::command::{Command, Commit, ModelCall, Reserve};
use super::ending::Ending;
use super::input::{Axis, Refusal};
use super::machine::{State, Then, Turn};
use crate::prompt::Stage;
use bxcore::transcript::Entry;
use bxcore::usage::Spend;
use bxcore::wire::loopd::{TurnEvent, WaitReason};

/// The least that a reply's maximum shrinks to where a budget is nearly used up, in tokens.
pub const MIN_REPLY_TOKENS: u32 = 64;
/// How often a smaller reservation is tried; others may use the account up in between.
const MAX_RESERVE_TRIES: u32 = 3;

impl Turn {
    /// Commits the turn's first entries and reserves its first model call.
    pub(super) fn enter(&mut self, entries: Vec<Entry>) -> Vec<Command> {
        let mut commit = self.call_model(entries);
        commit.opens_turn = true;
        vec![Command::Commit(commit)]
    }

    /// Commits entries and reserves the next model call.
    pub(super) fn call_model(&mut self, mut entries: Vec<Entry>) -> Commit {
        entries.extend(self.epoch.take().map(Entry::Epoch));
        for entry in &entries {
            self.conversation.push(entry);
        }
        if let Some(compaction) = self.due_compaction() {
            return self.call_for_summary(compaction, entries);
        }
        let answer_tokens = self.context.limits.answer_tokens;
        let room = self.conversation.room().unwrap_or(u64::MAX);
        let max_tokens = answer_tokens
            .min(u32::try_from(room).unwrap_or(u32::MAX))
            .max(MIN_REPLY_TOKENS.min(answer_tokens));
        let rounds_left = self.answers < self.context.limits.tool_iterations;
        let stage = if rounds_left && !self.conversation.goes_in_circles() {
            Stage::Open
        } else {
            Stage::Last
        };
        self.reserve_call(stage, max_tokens, entries)
    }

    /// Commits entries and reserves a model call.
    pub(super) fn reserve_call(
        &mut self,
        stage: Stage,
        max_tokens: u32,
        entries: Vec<Entry>,
    ) -> Commit {
        let model = ModelCall {
            model_call: self.next_model_call,
            stage,
            max_tokens,
        };
        self.next_model_call = self.next_model_call.next();
        let reserve = self.reservation(model);
        self.state = State::Committing(Then::Call {
            model,
            reserve: reserve.clone(),
            tries: 0,
        });
        Commit {
            reserve: Some(reserve),
            ..self.commit(entries)
        }
    }

    fn reservation(&self, model: ModelCall) -> Reserve {
        let prompt = self.prompt_bound(model.max_tokens);
        let answer = u64::from(model.max_tokens);
        let (backend, name) = match self.conversation.epoch() {
            Some(epoch) => (epoch.backend.clone(), epoch.model.clone()),
            None => unreachable!("a turn begins with an epoch"),
        };
        Reserve {
            model_call: model.model_call,
            amount: Spend {
                tokens: prompt.saturating_add(answer),
                usd: self.context.price.cost(prompt, answer),
            },
            backend,
            model: name,
        }
    }

    /// The store said whether the reservation was made.
    pub(super) fn reserved(
        &mut self,
        model: ModelCall,
        reserve: Reserve,
        tries: u32,
        reserved: Result<(), Refusal>,
    ) -> Vec<Command> {
        match reserved {
            Ok(()) if self.stopping => {
                let (entries, mut commands) = self.stopped_question();
                let mut commit = self.end(entries, Ending::stopped());
                commit.release = Some(model.model_call);
                commands.push(Command::Commit(commit));
                commands
            }
            Ok(()) => {
                self.state = State::Calling { model, reserve };
                let reason = WaitReason::Compacting;
                let told = Command::Announce(TurnEvent::Waiting { reason });
                let told = (model.stage == Stage::Summary).then_some(told);
                told.into_iter()
                    .chain([Command::CallModel(model)])
                    .collect()
            }
            Err(_) if self.stopping => {
                let (entries, mut commands) = self.stopped_question();
                let end = self.end(entries, Ending::stopped());
                commands.push(Command::Commit(end));
                commands
            }
            Err(refusal) => match self.smaller(model, &refusal) {
                Some(smaller) if tries < MAX_RESERVE_TRIES => {
                    let reserve = self.reservation(smaller);
                    let commit = Commit {
                        reserve: Some(reserve.clone()),
                        ..self.commit(Vec::new())
                    };
                    self.state = State::Committing(Then::Call {
                        model: smaller,
                        reserve,
                        tries: tries + 1,
                    });
                    vec![Command::Commit(commit)]
                }
                _ if model.stage == Stage::Summary => {
                    self.without_summary(&Ending::refused(&refusal), None, None)
                }
                _ if self.question.is_some() => self.question_answered(None, None, None),
                _ => vec![self.end_with(Ending::refused(&refusal))],
            },
        }
    }

    /// The same call with the longest answer that what is left can pay, if that is long enough.
    fn smaller(&self, model: ModelCall, refusal: &Refusal) -> Option<ModelCall> {
        let prompt = self.prompt_bound(model.max_tokens);
        let affordable = match refusal.axis {
            Axis::Tokens => refusal.left.checked_sub(prompt)?,
            Axis::Usd => {
                let prompt_cost = self.context.price.cost(prompt, 0).micros();
                let left = i64::try_from(refusal.left).ok()?.checked_sub(prompt_cost)?;
                let per_million = self.context.price.completion.micros();
                // One token less, since costs are rounded up.
                let tokens = i128::from(left) * 1_000_000 / i128::from(per_million.max(1)) - 1;
                u64::try_from(tokens).ok()?
            }
        };
        let max_tokens = u32::try_from(affordable).unwrap_or(u32::MAX);
        let fits = (MIN_REPLY_TOKENS..model.max_tokens).contains(&max_tokens);
        fits.then_some(ModelCall {
            max_tokens,
            ..model
        })
    }
}
