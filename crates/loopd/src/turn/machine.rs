//! The machine itself: its state, and which input leads where.

use super::command::{Command, ModelCall, Reserve, RunTool};
use super::context::{Opening, TurnContext};
use super::ending::Ending;
use super::input::Input;
use super::question::Question;
use super::results::Due;
use crate::prompt::{Compaction, Conversation};
use bxcore::id::{CallId, ModelCallId, TurnId};
use bxcore::label::Label;
use bxcore::money::MicroUsd;
use bxcore::problem::Problem;
use bxcore::tool::ToolName;
use bxcore::transcript::{Entry, Epoch};
use bxcore::usage::Usage;
use bxcore::wire::loopd::{CallReport, TurnEvent};
use std::collections::VecDeque;

/// An input that the state has no use for. Nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a turn that is {state} takes no `{input}`")]
pub struct IllegalInput {
    /// What the turn is doing.
    pub state: &'static str,
    /// What it was told.
    pub input: &'static str,
}

/// A body was asked for while no model call is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no model call is due")]
pub struct NoModelCall;

/// A turn that has no epoch to work in: neither the conversation nor the opening has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the session has no epoch yet")]
pub struct NoEpoch;

/// A turn under way.
#[derive(Debug)]
pub struct Turn {
    pub(super) context: TurnContext,
    pub(super) turn: TurnId,
    pub(super) conversation: Conversation,
    pub(super) state: State,
    /// An epoch that begins with the next model call of a resumed turn.
    pub(super) epoch: Option<Epoch>,
    pub(super) label: Label,
    pub(super) next_model_call: ModelCallId,
    /// Answers so far, each of which counts as an iteration.
    pub(super) answers: u32,
    /// Model calls in a row that were lost.
    pub(super) lost_in_a_row: u32,
    pub(super) usage: Usage,
    pub(super) cost: MicroUsd,
    pub(super) calls: Vec<CallReport>,
    pub(super) answer: String,
    /// What is being summed up.
    pub(super) compaction: Option<Compaction>,
    /// What a call of its own makes a tool's result of, where one is under way.
    pub(super) question: Option<Box<Question>>,
    /// The call for a summary that a person asked for, where this is no turn but that.
    pub(super) by_hand: Option<ModelCallId>,
    /// What memory holds now, where a person asked for a summary and it has changed.
    pub(super) fresh_memory: Option<String>,
    /// Why the conversation could not be summed up in this turn.
    pub(super) not_compacted: Option<Problem>,
    /// What is said of counts of a server that were not believed.
    pub(super) disbelief: Option<String>,
    pub(super) stopping: bool,
    pub(super) stored: bool,
}

#[derive(Debug, Clone)]
pub(super) enum State {
    Committing(Then),
    Calling { model: ModelCall, reserve: Reserve },
    Running(Running),
    Ended,
}

/// What a commit is for.
#[derive(Debug, Clone)]
pub(super) enum Then {
    Call {
        model: ModelCall,
        reserve: Reserve,
        tries: u32,
    },
    Tools {
        due: VecDeque<Due>,
        resumed: bool,
    },
    Paid(Box<Paid>),
    End(Ending),
}

/// A tool call that costs money, while that is set aside.
#[derive(Debug, Clone)]
pub(super) struct Paid {
    pub(super) run: RunTool,
    pub(super) reserve: Reserve,
    pub(super) due: VecDeque<Due>,
    pub(super) done: Vec<Entry>,
}

/// Tool calls of one answer, worked in order.
#[derive(Debug, Clone)]
pub(super) struct Running {
    pub(super) current: CallId,
    pub(super) tool: ToolName,
    pub(super) due: VecDeque<Due>,
    pub(super) done: Vec<Entry>,
    pub(super) resumed: bool,
    /// What is set aside for the call under way.
    pub(super) reserve: Option<Reserve>,
}

impl State {
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Committing(_) => "committing",
            Self::Calling { .. } => "calling",
            Self::Running(_) => "running",
            Self::Ended => "ended",
        }
    }
}

impl Turn {
    /// Begins a turn with a message.
    ///
    /// `conversation` is the fold of everything the session's transcript holds so far.
    pub fn begin(
        context: TurnContext,
        conversation: Conversation,
        opening: Opening,
    ) -> Result<(Self, Vec<Command>), NoEpoch> {
        if conversation.epoch().is_none() && opening.epoch.is_none() {
            return Err(NoEpoch);
        }
        let mut turn = Self::new(context, conversation, opening.turn());
        turn.label = turn.label.join(opening.user.label);
        let entries = [
            opening.open.map(Entry::Open),
            opening.epoch.map(Entry::Epoch),
            Some(Entry::User(opening.user)),
        ];
        let mut commands = turn.enter(entries.into_iter().flatten().collect());
        if let Some(started) = turn.started() {
            commands.insert(0, started);
        }
        Ok((turn, commands))
    }

    pub(super) fn new(context: TurnContext, conversation: Conversation, turn: TurnId) -> Self {
        Self {
            turn,
            state: State::Ended,
            epoch: None,
            label: context.label.join(conversation.label()),
            next_model_call: context.next_model_call.max(conversation.next_model_call()),
            answers: 0,
            lost_in_a_row: 0,
            usage: context.lost.usage,
            cost: context.lost.cost,
            calls: Vec::new(),
            answer: String::new(),
            compaction: None,
            question: None,
            by_hand: None,
            fresh_memory: None,
            not_compacted: None,
            disbelief: None,
            stopping: false,
            stored: true,
            conversation,
            context,
        }
    }

    pub(super) fn started(&self) -> Option<Command> {
        let epoch = self.conversation.epoch()?;
        Some(Command::Announce(TurnEvent::Started {
            session: self.context.session.clone(),
            turn: self.turn,
            backend: epoch.backend.clone(),
        }))
    }

    /// Takes what happened and says what to do next.
    pub fn on(&mut self, input: Input) -> Result<Vec<Command>, IllegalInput> {
        let illegal = IllegalInput {
            state: self.state.name(),
            input: input.name(),
        };
        if matches!(input, Input::Stop) {
            return Ok(self.stop());
        }
        // The state is put back where the input turns out to be none for it.
        match (std::mem::replace(&mut self.state, State::Ended), input) {
            (
                State::Committing(Then::Call {
                    model,
                    reserve,
                    tries,
                }),
                Input::Committed {
                    reserved: Some(reserved),
                },
            ) => Ok(self.reserved(model, reserve, tries, reserved)),
            (
                State::Committing(Then::Tools { due, resumed }),
                Input::Committed { reserved: None },
            ) => Ok(self.run(due, Vec::new(), resumed)),
            (
                State::Committing(Then::Paid(paid)),
                Input::Committed {
                    reserved: Some(reserved),
                },
            ) => Ok(self.paid(*paid, reserved)),
            (State::Committing(Then::End(ending)), Input::Committed { reserved: None }) => {
                Ok(vec![self.report(ending)])
            }
            (State::Committing(_), Input::CommitFailed { problem }) => {
                self.stored = false;
                self.answer.clear();
                Ok(vec![self.report(Ending::not_stored(problem))])
            }
            (State::Calling { model, reserve }, Input::Answered { answer, receipt }) => {
                Ok(self.answered(model, reserve, &answer, receipt))
            }
            (State::Calling { reserve, .. }, Input::CallFailed { problem, spent }) => {
                Ok(self.call_failed(reserve, problem, spent))
            }
            (State::Calling { reserve, .. }, Input::CallLost { problem }) => {
                Ok(self.call_lost(reserve, problem))
            }
            (State::Running(running), Input::ToolEnded { call, result })
                if running.current == call =>
            {
                Ok(self.tool_ended(running, &result))
            }
            (state, _) => {
                self.state = state;
                Err(illegal)
            }
        }
    }

    fn stop(&mut self) -> Vec<Command> {
        if self.stopping || self.is_over() {
            return Vec::new();
        }
        self.stopping = true;
        match &self.state {
            State::Calling { model, .. } => vec![Command::StopModel {
                model_call: model.model_call,
            }],
            State::Running(running) => vec![Command::StopTool {
                call: running.current,
            }],
            // The next input finds the wish.
            State::Committing(_) | State::Ended => Vec::new(),
        }
    }

    /// Joins a label that the session has by an answer; gives the event if that changes it.
    pub fn join(&mut self, label: Label) -> Option<TurnEvent> {
        let label = self.label.join(label);
        if label == self.label {
            return None;
        }
        self.label = label;
        Some(TurnEvent::Label { label })
    }

    /// The conversation for the session's next turn; none where it holds something that was not
    /// stored or the turn is not over, so that it must be loaded anew.
    pub fn into_conversation(self) -> Option<Conversation> {
        let mut conversation = (self.stored && self.is_over()).then_some(self.conversation)?;
        conversation.skip_to(
            match self.by_hand {
                Some(_) => self.turn,
                None => self.turn.next(),
            },
            conversation.next_call(),
            self.next_model_call,
        );
        conversation.shrink();
        Some(conversation)
    }
}
