//! Tool calls that cost money: set aside before, charged after, each in a commit of its own.
//!
//! Such a call has a number among the model calls, since a model elsewhere is what is paid: so it
//! has a row in the ledger, and a crash charges it as it does any call that was lost.

use super::command::{Command, Commit, Reserve, RunTool, Settle};
use super::ending::Ending;
use super::input::Refusal;
use super::machine::{Paid, State, Then, Turn};
use super::results::{Due, own_result};
use crate::tools::Target;
use bxcore::code::Code;
use bxcore::id::BackendName;
use bxcore::money::MicroUsd;
use bxcore::transcript::{CallOutcome, Entry};
use bxcore::usage::{Charge, Spend, Usage, UsageSource};
use bxcore::wire::brokerd::CallResult;
use std::collections::VecDeque;

impl Turn {
    /// What must be set aside for a call, if it costs money.
    pub(super) fn reserve_for(&mut self, run: &RunTool) -> Option<Reserve> {
        if run.target != Target::Broker {
            return None;
        }
        let usd = self.context.catalog.get(run.tool.as_str())?.reserve?;
        // A tool whose name can't be a backend's is none of those that cost money.
        let backend = BackendName::new(run.tool.as_str()).ok()?;
        let model_call = self.next_model_call;
        self.next_model_call = self.next_model_call.next();
        Some(Reserve {
            model_call,
            amount: Spend { tokens: 0, usd },
            backend,
            model: run.tool.as_str().to_owned(),
        })
    }

    /// Sets aside what a call may cost, before it is made.
    pub(super) fn set_aside(
        &mut self,
        run: RunTool,
        reserve: Reserve,
        due: VecDeque<Due>,
        done: Vec<Entry>,
    ) -> Command {
        let commit = Commit {
            reserve: Some(reserve.clone()),
            ..self.commit(Vec::new())
        };
        self.state = State::Committing(Then::Paid(Box::new(Paid {
            run,
            reserve,
            due,
            done,
        })));
        Command::Commit(commit)
    }

    /// The store said whether it is set aside.
    pub(super) fn paid(&mut self, paid: Paid, reserved: Result<(), Refusal>) -> Vec<Command> {
        let Paid {
            run,
            reserve,
            due,
            mut done,
        } = paid;
        let resumed = run.resumed;
        match reserved {
            Ok(()) if !self.stopping => {
                let run = RunTool {
                    reserved: Some(reserve.amount.usd),
                    ..run
                };
                vec![self.start(run, Some(reserve), due, done)]
            }
            Ok(()) => {
                let (code, text) = (Code::Stopped, "Not run: the turn was stopped.");
                let mut commands = self.refused(run, code, text, &mut done);
                let (results, events) = self.not_run(due, code);
                done.extend(results);
                commands.extend(events);
                let mut commit = self.end(done, Ending::stopped());
                commit.release = Some(reserve.model_call);
                commands.push(Command::Commit(commit));
                commands
            }
            // It may have been made before a crash, and is charged as lost then. brokerd has its
            // answer if it was; and begins none for which nothing is set aside.
            Err(_) if resumed && !self.stopping => vec![self.start(run, None, due, done)],
            Err(refusal) => {
                let text = format!(
                    "Not run: it may cost {} dollars, and {} has {} left.",
                    reserve.amount.usd,
                    refusal.account,
                    left(&refusal)
                );
                let mut commands = self.refused(run, Code::BudgetExhausted, &text, &mut done);
                commands.extend(self.run(due, done, resumed));
                commands
            }
        }
    }

    fn refused(
        &mut self,
        run: RunTool,
        code: Code,
        text: &str,
        done: &mut Vec<Entry>,
    ) -> Vec<Command> {
        let result = own_result(CallOutcome::Denied, code, text);
        let (entry, events) = self.result(run.call, run.tool, &result);
        done.push(entry);
        events
    }

    /// Commits the results so far, and with them what the last one cost.
    pub(super) fn settle_tool(
        &mut self,
        reserve: Reserve,
        charge: Option<Charge>,
        due: VecDeque<Due>,
        done: Vec<Entry>,
        resumed: bool,
    ) -> Command {
        for entry in &done {
            self.conversation.push(entry);
        }
        let mut commit = self.commit(done);
        match charge {
            Some(charge) => commit.settle = Some(self.settle_charge(reserve, &charge)),
            None => commit.release = Some(reserve.model_call),
        }
        self.state = State::Committing(Then::Tools { due, resumed });
        Command::Commit(commit)
    }

    fn settle_charge(&mut self, reserve: Reserve, charge: &Charge) -> Settle {
        self.cost = self.cost.saturating_add(charge.usd);
        Settle {
            model_call: reserve.model_call,
            actual: Spend {
                tokens: 0,
                usd: charge.usd,
            },
            usage: charge.usage,
            source: charge.source,
            backend: reserve.backend,
            model: reserve.model,
        }
    }
}

/// What a call is charged; nothing where it was not made.
///
/// A call that was made before loopd died was charged as lost at its start, so the same answer
/// again costs nothing more. One whose end nobody knows is charged for all that was set aside.
pub(super) fn charged(result: &CallResult, reserved: MicroUsd, resumed: bool) -> Option<Charge> {
    match (result.charge, result.outcome) {
        _ if resumed && result.replayed => None,
        (Some(charge), _) => Some(charge),
        (None, CallOutcome::Denied) => None,
        (None, _) => Some(Charge {
            usd: reserved,
            usage: Usage::default(),
            source: UsageSource::Lost,
        }),
    }
}

/// What a call cost as far as that was counted. What is charged for a call of which nobody knows is
/// read from the ledger when a turn is resumed, as it is for model calls.
pub(super) fn counted(charge: &Charge) -> MicroUsd {
    match charge.source {
        UsageSource::Lost => MicroUsd::ZERO,
        UsageSource::Reported | UsageSource::Estimated => charge.usd,
    }
}

fn left(refusal: &Refusal) -> MicroUsd {
    let micros = i64::try_from(refusal.left).unwrap_or(i64::MAX);
    MicroUsd::from_micros(micros).unwrap_or(MicroUsd::MAX)
}
