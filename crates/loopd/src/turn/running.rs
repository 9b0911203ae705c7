//! The tool calls of an answer: one after the other, and each with its one result.

use super::command::{Command, Reserve, RunTool};
use super::ending::Ending;
use super::machine::{Running, State, Turn};
use super::paying::{charged, counted};
use super::question::Question;
use super::results::{self, Due, own_result};
use crate::tools::Routed;
use bxcore::code::Code;
use bxcore::id::CallId;
use bxcore::money::MicroUsd;
use bxcore::tool::ToolName;
use bxcore::transcript::{CallOutcome, Entry};
use bxcore::wire::brokerd::CallResult;
use bxcore::wire::loopd::CallReport;
use std::collections::VecDeque;

impl Turn {
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
                    let run = RunTool {
                        call: next.call,
                        target,
                        tool,
                        arguments,
                        resumed,
                        reserved: None,
                    };
                    commands.push(match self.reserve_for(&run) {
                        Some(reserve) => self.set_aside(run, reserve, due, done),
                        None => self.start(run, None, due, done),
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
        commands.push(Command::Commit(self.call_model(done)));
        commands
    }

    /// Has a tool run.
    pub(super) fn start(
        &mut self,
        run: RunTool,
        reserve: Option<Reserve>,
        due: VecDeque<Due>,
        done: Vec<Entry>,
    ) -> Command {
        self.state = State::Running(Running {
            current: run.call,
            tool: run.tool.clone(),
            due,
            done,
            resumed: run.resumed,
            reserve,
        });
        Command::RunTool(run)
    }

    /// The tool call under way ended.
    pub(super) fn tool_ended(&mut self, running: Running, result: &CallResult) -> Vec<Command> {
        let Running {
            current,
            tool,
            due,
            mut done,
            resumed,
            reserve,
        } = running;
        let asked = self.asked(&tool, result).filter(|_| reserve.is_none());
        if let Some(asked) = asked {
            return self.answer_question(Question {
                call: current,
                tool,
                asked,
                result: result.clone(),
                due,
                done,
                resumed,
            });
        }
        let result = &self.capped(result.clone());
        let (mut entry, mut commands) = self.result(current, tool, result);
        if let Some(reserve) = reserve {
            let charge = charged(result, reserve.amount.usd, resumed);
            if let Entry::Tool(tool) = &mut entry {
                tool.cost = charge.map_or(MicroUsd::ZERO, |charge| counted(&charge));
            }
            done.push(entry);
            commands.push(self.settle_tool(reserve, charge, due, done, resumed));
            return commands;
        }
        done.push(entry);
        commands.extend(self.run(due, done, resumed));
        commands
    }

    /// The entry and the events of an ended call.
    pub(super) fn result(
        &mut self,
        call: CallId,
        tool: ToolName,
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
        let label = result.label.join(result.session_label);
        events.extend(self.join(label).map(Command::Announce));
        (Entry::Tool(entry), events)
    }

    /// Results of calls that are not run any more.
    pub(super) fn not_run(&mut self, due: VecDeque<Due>, code: Code) -> (Vec<Entry>, Vec<Command>) {
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
}
