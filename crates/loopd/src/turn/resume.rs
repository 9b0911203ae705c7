//! Goes on with a turn that a crash left unfinished.
//!
//! Everything is read out of the transcript. An answer that is recorded is never asked for again;
//! a tool call without a result is made again, marked so that whoever runs it can tell.

use super::command::Command;
use super::context::TurnContext;
use super::ending::Ending;
use super::machine::Turn;
use super::results::Due;
use crate::prompt::{Conversation, recorded_answer};
use bxcore::id::{CallId, TurnId};
use bxcore::transcript::{Assistant, Entry, Epoch, Line, ToolMode};
use bxcore::wire::loopd::CallReport;
use std::collections::{BTreeSet, VecDeque};

/// Entries that are no unfinished turn.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResumeError {
    /// There is no message that began a turn.
    #[error("no turn is unfinished")]
    NothingToResume,
    /// The conversation has no epoch.
    #[error("the session has no epoch yet")]
    NoEpoch,
}

/// The lines of a transcript's unfinished turn, from its message on; none if there is none.
pub fn unfinished(lines: &[Line]) -> Option<&[Line]> {
    let start = lines
        .iter()
        .rposition(|line| matches!(line.entry, Entry::User(_) | Entry::TurnEnd(_)))?;
    matches!(lines[start].entry, Entry::User(_)).then(|| &lines[start..])
}

/// What the entries of an unfinished turn say.
struct Fold<'a> {
    turn: TurnId,
    last: Option<&'a Assistant>,
    answered: BTreeSet<CallId>,
}

impl Turn {
    /// Goes on with the unfinished turn of a transcript.
    ///
    /// `conversation` is the fold of all of the transcript's lines, those of the turn included;
    /// `lines` are what [`unfinished`] gave. `epoch` is the one that must begin before the next
    /// request, if any. To end the turn instead, say `Input::Stop` next.
    pub fn resume(
        context: TurnContext,
        conversation: Conversation,
        epoch: Option<Epoch>,
        lines: &[Line],
    ) -> Result<(Self, Vec<Command>), ResumeError> {
        let Some(Line {
            entry: Entry::User(user),
            ..
        }) = lines.first()
        else {
            return Err(ResumeError::NothingToResume);
        };
        if conversation.epoch().is_none() {
            return Err(ResumeError::NoEpoch);
        }
        let mut turn = Self::new(context, conversation, user.turn);
        turn.epoch = epoch;
        let fold = turn.fold(user.turn, lines);
        let mut commands: Vec<Command> = turn.started().into_iter().collect();
        commands.extend(turn.go_on(&fold));
        Ok((turn, commands))
    }

    fn fold<'a>(&mut self, turn: TurnId, lines: &'a [Line]) -> Fold<'a> {
        let mut fold = Fold {
            turn,
            last: None,
            answered: BTreeSet::new(),
        };
        for line in lines {
            match &line.entry {
                Entry::Assistant(assistant) if assistant.turn == fold.turn => {
                    self.answers += 1;
                    self.usage = self.usage.plus(assistant.receipt.usage());
                    self.cost = self.cost.saturating_add(assistant.cost);
                    fold.last = Some(assistant);
                }
                Entry::Epoch(Epoch {
                    compacted: Some(compacted),
                    ..
                }) => {
                    self.usage = self.usage.plus(compacted.receipt.usage());
                    self.cost = self.cost.saturating_add(compacted.cost);
                }
                Entry::Tool(tool) if tool.turn == fold.turn => {
                    fold.answered.insert(tool.call);
                    self.cost = self.cost.saturating_add(tool.cost);
                    self.calls.push(CallReport {
                        call: tool.call,
                        tool: tool.tool.clone(),
                        outcome: tool.outcome,
                    });
                }
                _ => {}
            }
        }
        fold
    }

    fn go_on(&mut self, fold: &Fold<'_>) -> Vec<Command> {
        let Some(last) = fold.last else {
            return vec![Command::Commit(self.call_model(Vec::new()))];
        };
        if last.calls.is_empty() {
            return vec![self.conclude_recorded(last)];
        }
        let most = usize::try_from(self.context.limits.tool_result_bytes).unwrap_or(usize::MAX);
        let due: VecDeque<Due> = last
            .calls
            .iter()
            .filter(|call| !fold.answered.contains(&call.call))
            .map(|call| Due::new(call, most))
            .collect();
        self.run(due, Vec::new(), true)
    }

    /// Ends a turn whose answer is recorded and whose end is not.
    fn conclude_recorded(&mut self, last: &Assistant) -> Command {
        let mode = match last.rung {
            Some(_) => ToolMode::Schema,
            None => ToolMode::Native,
        };
        let text = recorded_answer(mode, &last.message);
        let text = text.trim();
        let ending = if text.is_empty() {
            Ending::empty(false, self.context.limits.answer_tokens)
        } else {
            text.clone_into(&mut self.answer);
            Ending::completed(None)
        };
        Command::Commit(self.end(Vec::new(), ending))
    }
}
