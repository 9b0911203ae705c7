//! The end of a turn: its last commit, and the report of it.

use super::command::{Command, Commit, Payer, Settle};
use super::ending::Ending;
use super::machine::{State, Then, Turn};
use bxcore::transcript::{Entry, TurnEnd, TurnOutcome};
use bxcore::wire::loopd::TurnReport;

impl Turn {
    /// Commits entries and the end of the turn.
    pub(super) fn end(&mut self, mut entries: Vec<Entry>, ending: Ending) -> Commit {
        if self.by_hand.is_none() {
            entries.push(self.turn_end(&ending));
        }
        for entry in &entries {
            self.conversation.push(entry);
        }
        self.state = State::Committing(Then::End(ending));
        Commit {
            closes_turn: self.by_hand.is_none(),
            ..self.commit(entries)
        }
    }

    pub(super) fn end_with(&mut self, ending: Ending) -> Command {
        Command::Commit(self.end(Vec::new(), ending))
    }

    pub(super) fn end_settled(
        &mut self,
        entries: Vec<Entry>,
        ending: Ending,
        settle: Settle,
    ) -> Command {
        let mut commit = self.end(entries, ending);
        commit.settle = Some(settle);
        Command::Commit(commit)
    }

    /// Like [`Self::end_settled`], for first entries that the conversation has already.
    pub(super) fn end_pushed(
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
            cost_usd: self.cost.to_string(),
            problem: ending.problem,
        }))
    }

    /// A commit of entries and nothing else.
    pub(super) fn commit(&self, entries: Vec<Entry>) -> Commit {
        Commit {
            turn: self.turn,
            entries,
            opens_turn: false,
            closes_turn: false,
            payer: match self.by_hand {
                Some(call) => Payer::Call(call),
                None => Payer::Turn,
            },
            settle: None,
            release: None,
            reserve: None,
        }
    }
}
