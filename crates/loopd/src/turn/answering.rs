//! After a model call: what its answer or its failure leads to, and what it cost.

use super::command::{Command, Commit, ModelCall, Reserve, Settle};
use super::ending::Ending;
use super::input::Spent;
use super::machine::{State, Then, Turn};
use super::results::Due;
use crate::prompt::{self, Reply, Stage, wire_id};
use bxcore::chat::{Finish, MAX_TOOL_CALLS_PER_ANSWER, ModelAnswer};
use bxcore::code::Code;
use bxcore::money::MicroUsd;
use bxcore::problem::Problem;
use bxcore::transcript::{Assistant, Entry, NumberedCall};
use bxcore::usage::{Receipt, Spend, Usage, UsageSource};
use bxcore::wire::loopd::{TurnEvent, WaitReason};
use std::collections::VecDeque;

/// How near to the context's end an answer that was cut off counts as cut by it, in tokens.
const CONTEXT_SLACK_TOKENS: u64 = 8;
/// How many times what a call can use at most a server may count before it is not believed. A
/// server that counts a little otherwise than we bound is charged as it says.
const MAX_COUNT_FACTOR: u64 = 4;
/// How often in a row a lost model call is made again. What makes it die may well be the call.
const MAX_LOST_IN_A_ROW: u32 = 1;

impl Turn {
    /// The model answered.
    pub(super) fn answered(
        &mut self,
        model: ModelCall,
        reserve: Reserve,
        answer: &ModelAnswer,
        receipt: Receipt,
    ) -> Vec<Command> {
        let receipt = self.believed(model, &reserve, receipt);
        let settle = self.settle(reserve, &receipt);
        if self.stopping {
            let (entries, mut commands) = self.stopped_question();
            commands.push(self.end_settled(entries, Ending::stopped(), settle));
            return commands;
        }
        if model.stage == Stage::Summary {
            return self.summed_up(model, answer, receipt, settle);
        }
        if self.question.is_some() {
            return self.question_answered(Some(answer), Some(settle), None);
        }
        self.answers += 1;
        self.lost_in_a_row = 0;
        let reply = prompt::read_reply(self.conversation.mode(), answer);
        let calls = self.numbered(&reply);
        let ending = calls
            .is_empty()
            .then(|| self.conclude(model, answer, &reply, &receipt));
        let entry = Entry::Assistant(Assistant {
            turn: self.turn,
            model_call: model.model_call,
            message: prompt::assistant(
                self.conversation.mode(),
                answer,
                &calls,
                self.context.reasoning,
            ),
            reasoning: answer.reasoning.clone(),
            calls: calls.clone(),
            rung: reply.rung,
            receipt,
            cost: settle.actual.usd,
        });
        if let Some(ending) = ending {
            return vec![self.end_settled(vec![entry], ending, settle)];
        }
        let mut commands = Vec::new();
        if !reply.answer.trim().is_empty() {
            commands.push(Command::Announce(TurnEvent::Retract));
        }
        let cut = prompt::last_call_is_cut(answer, &reply.calls);
        let due = self.due(&calls, cut.then_some(model.max_tokens));
        if model.stage == Stage::Last {
            let rounds = self.answers - 1;
            // Asked before the conversation has the calls of this answer, which were not run.
            let ending = if self.conversation.goes_in_circles() {
                Ending::in_circles(rounds)
            } else {
                Ending::iterations_exhausted(rounds)
            };
            // The conversation must know the calls before their results.
            self.conversation.push(&entry);
            let (results, events) = self.not_run(due, Code::IterationsExhausted);
            commands.extend(events);
            let end = self.end_pushed(vec![entry], results, ending, settle);
            commands.push(end);
            return commands;
        }
        self.conversation.push(&entry);
        self.state = State::Committing(Then::Tools {
            due,
            resumed: false,
        });
        commands.push(Command::Commit(Commit {
            settle: Some(settle),
            ..self.commit(vec![entry])
        }));
        commands
    }

    fn numbered(&self, reply: &Reply) -> Vec<NumberedCall> {
        let mut next = self.conversation.next_call();
        let mut numbered = Vec::with_capacity(reply.calls.len());
        for written in reply.calls.iter().take(MAX_TOOL_CALLS_PER_ANSWER) {
            let mut written = written.clone();
            written.id = wire_id(next);
            numbered.push(NumberedCall {
                call: next,
                written,
            });
            next = next.next();
        }
        numbered
    }

    fn due(&self, calls: &[NumberedCall], last_is_cut_at: Option<u32>) -> VecDeque<Due> {
        let most = usize::try_from(self.context.limits.tool_result_bytes).unwrap_or(usize::MAX);
        let mut due: VecDeque<Due> = calls.iter().map(|call| Due::new(call, most)).collect();
        if let (Some(max_tokens), Some(call), Some(last)) =
            (last_is_cut_at, calls.last(), due.back_mut())
        {
            *last = Due::cut(call, max_tokens);
        }
        due
    }

    /// How a turn ends with an answer that calls nothing.
    fn conclude(
        &mut self,
        model: ModelCall,
        answer: &ModelAnswer,
        reply: &Reply,
        receipt: &Receipt,
    ) -> Ending {
        let cut = answer.finish == Finish::Length;
        let used = receipt.usage().tokens();
        let context = self
            .conversation
            .epoch()
            .and_then(|epoch| epoch.context_tokens);
        if let Some(context) = context
            && cut
            && used.saturating_add(CONTEXT_SLACK_TOKENS) >= context
        {
            let ending = Ending::context_full(used, context);
            return ending.but(self.not_compacted.as_ref());
        }
        let text = reply.answer.trim();
        if text.is_empty() {
            return Ending::empty(cut && !answer.reasoning.is_empty(), model.max_tokens);
        }
        text.clone_into(&mut self.answer);
        let cut = cut.then(|| {
            format!(
                "the answer was cut off at its limit of {} tokens",
                model.max_tokens
            )
        });
        let remarks: Vec<String> = self.disbelief.take().into_iter().chain(cut).collect();
        Ending::completed((!remarks.is_empty()).then(|| remarks.join("; ")))
    }

    /// Whether what a server counted for the call under way can be.
    pub fn believes(&self, receipt: &Receipt) -> bool {
        match &self.state {
            State::Calling { reserve, .. } => is_credible(reserve, receipt),
            _ => true,
        }
    }

    /// The receipt, with the most that the call can have used where its counts can't be true: a
    /// server's fault must not use up a budget.
    fn believed(&mut self, model: ModelCall, reserve: &Reserve, receipt: Receipt) -> Receipt {
        if is_credible(reserve, &receipt) {
            return receipt;
        }
        let completion_tokens = u64::from(model.max_tokens);
        self.disbelief = Some(format!(
            "the server counted {} tokens, which can't be: {} were charged, the most that the call \
             can have used",
            receipt.usage().tokens(),
            reserve.amount.tokens
        ));
        Receipt {
            prompt_tokens: reserve.amount.tokens.saturating_sub(completion_tokens),
            completion_tokens,
            cache_n: None,
            prompt_n: None,
            source: UsageSource::Estimated,
            ..receipt
        }
    }

    /// The model call ended without a whole answer.
    pub(super) fn call_failed(
        &mut self,
        reserve: Reserve,
        problem: Problem,
        spent: Spent,
    ) -> Vec<Command> {
        let model_call = reserve.model_call;
        let settle = match spent {
            Spent::Nothing => None,
            Spent::Measured(receipt) => Some(self.settle(reserve, &receipt)),
            Spent::Unknown => Some(self.settle_whole(reserve)),
        };
        if self.compaction.is_some() && !self.stopping {
            let release = settle.is_none().then_some(model_call);
            return self.without_summary(&Ending::of_call(problem), settle, release);
        }
        if self.question.is_some() && !self.stopping {
            let release = settle.is_none().then_some(model_call);
            return self.question_answered(None, settle, release);
        }
        if let Some(compaction) = self.overflow(&problem) {
            let mut commit = self.call_for_summary(compaction, Vec::new());
            commit.release = settle.is_none().then_some(model_call);
            commit.settle = settle;
            return vec![
                Command::Announce(TurnEvent::Retract),
                Command::Commit(commit),
            ];
        }
        let mut commands = Vec::new();
        let ending = if self.stopping {
            Ending::stopped()
        } else {
            commands.push(Command::Announce(TurnEvent::Retract));
            Ending::of_call(problem).but(self.not_compacted.as_ref())
        };
        let (entries, events) = self.stopped_question();
        commands.extend(events);
        let mut commit = self.end(entries, ending);
        commit.release = settle.is_none().then_some(model_call);
        commit.settle = settle;
        commands.push(Command::Commit(commit));
        commands
    }

    /// Whoever made the model call died before the answer was whole: it is charged as lost, as a
    /// call is that loopd's own death lost, and made once more under a number of its own.
    pub(super) fn call_lost(&mut self, reserve: Reserve, problem: Problem) -> Vec<Command> {
        let is_aside = self.compaction.is_some() || self.question.is_some();
        if self.stopping || is_aside || self.lost_in_a_row >= MAX_LOST_IN_A_ROW {
            return self.call_failed(reserve, problem, Spent::Unknown);
        }
        self.lost_in_a_row += 1;
        let settle = self.settle_whole(reserve);
        let again = Commit {
            settle: Some(settle),
            ..self.call_model(Vec::new())
        };
        let reason = WaitReason::Again;
        vec![
            Command::Announce(TurnEvent::Retract),
            Command::Announce(TurnEvent::Waiting { reason }),
            Command::Commit(again),
        ]
    }

    fn settle(&mut self, reserve: Reserve, receipt: &Receipt) -> Settle {
        let usage = receipt.usage();
        let usd = self.context.price.cost_of(&usage);
        self.charge(reserve, usage, usd, receipt.source)
    }

    /// Charges a call of which nothing is known for all that it could have used.
    fn settle_whole(&mut self, reserve: Reserve) -> Settle {
        let usage = Usage {
            model_calls: 1,
            prompt_tokens: reserve.amount.tokens,
            assumed_tokens: reserve.amount.tokens,
            ..Usage::default()
        };
        let usd = reserve.amount.usd;
        self.charge(reserve, usage, usd, UsageSource::Lost)
    }

    pub(super) fn charge(
        &mut self,
        reserve: Reserve,
        usage: Usage,
        usd: MicroUsd,
        source: UsageSource,
    ) -> Settle {
        self.usage = self.usage.plus(usage);
        self.cost = self.cost.saturating_add(usd);
        Settle {
            model_call: reserve.model_call,
            actual: Spend {
                tokens: usage.tokens(),
                usd,
            },
            usage,
            source,
            backend: reserve.backend,
            model: reserve.model,
        }
    }
}

fn is_credible(reserve: &Reserve, receipt: &Receipt) -> bool {
    let most = reserve.amount.tokens.saturating_mul(MAX_COUNT_FACTOR);
    let usage = receipt.usage();
    usage.tokens() <= most && usage.cache_n <= most
}
