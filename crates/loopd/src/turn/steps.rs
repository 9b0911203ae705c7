//! What each input does: the decisions of a turn.

use super::MIN_REPLY_TOKENS;
use super::command::{Command, Commit, ModelCall, Reserve, RunTool, Settle};
use super::ending::Ending;
use super::input::{Axis, Refusal, Spent};
use super::machine::{Running, State, Then, Turn};
use super::results::{self, Due, own_result};
use crate::prompt::{self, Reply, Stage, wire_id};
use crate::tools::Routed;
use bxcore::chat::{Finish, MAX_TOOL_CALLS_PER_ANSWER, ModelAnswer};
use bxcore::code::Code;
use bxcore::id::CallId;
use bxcore::problem::Problem;
use bxcore::transcript::{Assistant, CallOutcome, Entry, NumberedCall, TurnEnd, TurnOutcome};
use bxcore::usage::{Receipt, Spend, Usage, UsageSource};
use bxcore::wire::brokerd::CallResult;
use bxcore::wire::loopd::{CallReport, TurnEvent, TurnReport, dollars};
use std::collections::VecDeque;

/// How often a smaller reservation is tried; others may use the account up in between.
const MAX_RESERVE_TRIES: u32 = 3;
/// How near to the context's end an answer that was cut off counts as cut by it, in tokens.
const CONTEXT_SLACK_TOKENS: u64 = 8;

impl Turn {
    /// Commits the turn's first entries and reserves its first model call.
    pub(super) fn enter(&mut self, entries: Vec<Entry>) -> Vec<Command> {
        let mut commit = self.call_model(entries, None);
        commit.opens_turn = true;
        vec![Command::Commit(commit)]
    }

    /// Commits entries and reserves the next model call.
    pub(super) fn call_model(&mut self, mut entries: Vec<Entry>, settle: Option<Settle>) -> Commit {
        entries.extend(self.epoch.take().map(Entry::Epoch));
        for entry in &entries {
            self.conversation.push(entry);
        }
        let answer_tokens = self.context.limits.answer_tokens;
        let room = self.conversation.room().unwrap_or(u64::MAX);
        let max_tokens = answer_tokens
            .min(u32::try_from(room).unwrap_or(u32::MAX))
            .max(MIN_REPLY_TOKENS.min(answer_tokens));
        let stage = if self.answers < self.context.limits.tool_iterations {
            Stage::Open
        } else {
            Stage::Last
        };
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
            settle,
            reserve: Some(reserve),
            ..self.commit(entries)
        }
    }

    fn commit(&self, entries: Vec<Entry>) -> Commit {
        Commit {
            turn: self.turn,
            entries,
            opens_turn: false,
            closes_turn: false,
            settle: None,
            release: None,
            reserve: None,
        }
    }

    fn reservation(&self, model: ModelCall) -> Reserve {
        let prompt = self.conversation.prompt_bound();
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
                let mut commit = self.end(Vec::new(), Ending::stopped());
                commit.release = Some(model.model_call);
                vec![Command::Commit(commit)]
            }
            Ok(()) => {
                self.state = State::Calling { model, reserve };
                vec![Command::CallModel(model)]
            }
            Err(_) if self.stopping => vec![self.end_with(Ending::stopped())],
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
                _ => vec![self.end_with(Ending::refused(&refusal))],
            },
        }
    }

    /// The same call with the longest answer that what is left can pay, if that is long enough.
    fn smaller(&self, model: ModelCall, refusal: &Refusal) -> Option<ModelCall> {
        let prompt = self.conversation.prompt_bound();
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

    /// The model answered.
    pub(super) fn answered(
        &mut self,
        model: ModelCall,
        reserve: Reserve,
        answer: &ModelAnswer,
        receipt: Receipt,
    ) -> Vec<Command> {
        let settle = self.settle(reserve, &receipt);
        if self.stopping {
            return vec![self.end_settled(Vec::new(), Ending::stopped(), settle)];
        }
        self.answers += 1;
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
            let ending = Ending::iterations_exhausted(self.context.limits.tool_iterations);
            // The conversation must know the calls before their results.
            self.conversation.push(&entry);
            let (results, events) = self.not_run(due, Code::IterationsExhausted);
            commands.extend(events);
            let end = self.end_pushed(vec![entry], results, ending, settle);
            commands.push(end);
            return commands;
        }
        self.conversation.push(&entry);
        self.state = State::Committing(Then::Tools(due));
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
            return Ending::context_full(used, context);
        }
        let text = reply.answer.trim();
        if text.is_empty() {
            return Ending::empty(cut && !answer.reasoning.is_empty(), model.max_tokens);
        }
        text.clone_into(&mut self.answer);
        let remark = format!(
            "the answer was cut off at its limit of {} tokens",
            model.max_tokens
        );
        Ending::completed(cut.then_some(remark))
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
        let mut commands = Vec::new();
        let ending = if self.stopping {
            Ending::stopped()
        } else {
            commands.push(Command::Announce(TurnEvent::Retract));
            Ending::of_call(problem)
        };
        let mut commit = self.end(Vec::new(), ending);
        commit.release = settle.is_none().then_some(model_call);
        commit.settle = settle;
        commands.push(Command::Commit(commit));
        commands
    }

    fn settle(&mut self, reserve: Reserve, receipt: &Receipt) -> Settle {
        let usage = receipt.usage();
        let usd = self
            .context
            .price
            .cost(usage.prompt_tokens, usage.completion_tokens);
        self.charge(reserve, usage, usd, receipt.source)
    }

    /// Charges a call of which nothing is known for all that it could have used.
    fn settle_whole(&mut self, reserve: Reserve) -> Settle {
        let usage = Usage {
            model_calls: 1,
            prompt_tokens: reserve.amount.tokens,
            completion_tokens: 0,
            cache_n: 0,
        };
        let usd = reserve.amount.usd;
        self.charge(reserve, usage, usd, UsageSource::Lost)
    }

    fn charge(
        &mut self,
        reserve: Reserve,
        usage: Usage,
        usd: bxcore::money::MicroUsd,
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

    /// Works off calls that are due, up to the first that somebody has to run.
    pub(super) fn run(
        &mut self,
        mut due: VecDeque<Due>,
        mut done: Vec<Entry>,
        resumed: bool,
    ) -> Vec<Command> {
        let mut commands = Vec::new();
        if self.stopping {
            let (results, events) = self.not_run(due, Code::Stopped);
            done.extend(results);
            commands.extend(events);
            commands.push(Command::Commit(self.end(done, Ending::stopped())));
            return commands;
        }
        while let Some(next) = due.pop_front() {
            commands.push(Command::Announce(next.event()));
            match next.routed {
                Routed::To {
                    target,
                    tool,
                    arguments,
                } => {
                    commands.push(Command::RunTool(RunTool {
                        call: next.call,
                        target,
                        tool: tool.clone(),
                        arguments,
                        resumed,
                    }));
                    self.state = State::Running(Running {
                        current: next.call,
                        tool,
                        due,
                        done,
                        resumed,
                    });
                    return commands;
                }
                Routed::Refused {
                    tool,
                    outcome,
                    code,
                    text,
                } => {
                    let result = own_result(outcome, code, &text);
                    let (entry, events) = self.result(next.call, tool, &result);
                    commands.extend(events);
                    done.push(entry);
                }
            }
        }
        commands.push(Command::Commit(self.call_model(done, None)));
        commands
    }

    /// The tool call under way ended.
    pub(super) fn tool_ended(&mut self, running: Running, result: &CallResult) -> Vec<Command> {
        let Running {
            current,
            tool,
            due,
            mut done,
            resumed,
        } = running;
        let (entry, mut commands) = self.result(current, tool, result);
        done.push(entry);
        commands.extend(self.run(due, done, resumed));
        commands
    }

    /// The entry and the events of an ended call.
    fn result(
        &mut self,
        call: CallId,
        tool: bxcore::tool::ToolName,
        result: &CallResult,
    ) -> (Entry, Vec<Command>) {
        let entry = results::entry(
            self.turn,
            call,
            tool,
            result,
            &self.conversation,
            &self.context.catalog,
        );
        self.calls.push(CallReport {
            call,
            tool: entry.tool.clone(),
            outcome: entry.outcome,
        });
        let mut events = vec![Command::Announce(results::result_event(
            &entry,
            &result.content,
        ))];
        let label = self.label.join(result.label).join(result.session_label);
        if label != self.label {
            self.label = label;
            events.push(Command::Announce(TurnEvent::Label { label }));
        }
        (Entry::Tool(entry), events)
    }

    /// Results of calls that are not run any more.
    fn not_run(&mut self, due: VecDeque<Due>, code: Code) -> (Vec<Entry>, Vec<Command>) {
        let text = match code {
            Code::Stopped => "Not run: the turn was stopped.",
            _ => "Not run: the turn has used all its rounds of tools.",
        };
        let result = own_result(CallOutcome::Denied, code, text);
        let mut entries = Vec::with_capacity(due.len());
        let mut commands = Vec::new();
        for next in due {
            commands.push(Command::Announce(next.event()));
            let (entry, events) = self.result(next.call, next.routed.tool().clone(), &result);
            entries.push(entry);
            commands.extend(events);
        }
        (entries, commands)
    }

    /// Commits entries and the end of the turn.
    pub(super) fn end(&mut self, mut entries: Vec<Entry>, ending: Ending) -> Commit {
        entries.push(self.turn_end(&ending));
        for entry in &entries {
            self.conversation.push(entry);
        }
        self.state = State::Committing(Then::End(ending));
        Commit {
            closes_turn: true,
            ..self.commit(entries)
        }
    }

    fn end_with(&mut self, ending: Ending) -> Command {
        Command::Commit(self.end(Vec::new(), ending))
    }

    fn end_settled(&mut self, entries: Vec<Entry>, ending: Ending, settle: Settle) -> Command {
        let mut commit = self.end(entries, ending);
        commit.settle = Some(settle);
        Command::Commit(commit)
    }

    /// Like [`Self::end_settled`], for first entries that the conversation has already.
    fn end_pushed(
        &mut self,
        mut pushed: Vec<Entry>,
        entries: Vec<Entry>,
        ending: Ending,
        settle: Settle,
    ) -> Command {
        let mut commit = self.end(entries, ending);
        pushed.append(&mut commit.entries);
        commit.entries = pushed;
        commit.settle = Some(settle);
        Command::Commit(commit)
    }

    fn turn_end(&self, ending: &Ending) -> Entry {
        Entry::TurnEnd(TurnEnd {
            turn: self.turn,
            outcome: ending.outcome,
            code: ending.code(),
            detail: ending.detail(),
            label: self.label,
            usage: self.usage,
            cost: self.cost,
        })
    }

    /// The last command of a turn.
    pub(super) fn report(&mut self, ending: Ending) -> Command {
        self.state = State::Ended;
        let completed = ending.outcome == TurnOutcome::Completed;
        Command::End(Box::new(TurnReport {
            session: self.context.session.clone(),
            outcome: ending.outcome,
            answer: if completed {
                std::mem::take(&mut self.answer)
            } else {
                String::new()
            },
            label: self.label,
            calls: std::mem::take(&mut self.calls),
            usage: self.usage,
            cost_usd: dollars(self.cost),
            problem: ending.problem,
        }))
    }
}
