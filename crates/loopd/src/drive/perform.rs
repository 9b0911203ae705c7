//! Carries out a turn's commands, one after another, and feeds back what came of them.

use super::child::Waiting;
use super::engine::Engine;
use super::holds::Hold;
use super::ledger::{batch_of, refusal_of};
use super::sink::EventSink;
use crate::delegation::Standing;
use crate::turn::{Command, Commit, IllegalInput, Input, Turn};
use bxcore::day::utc_day;
use bxcore::id::CallId;
use bxcore::problem::Problem;
use bxcore::wire::inferproxy::BackendInfo;
use bxcore::wire::loopd::TurnEvent;
use std::collections::VecDeque;

/// A turn and what it is carried out with.
pub(super) struct Performance<'a> {
    pub(super) engine: &'a Engine,
    pub(super) turn: Turn,
    pub(super) backend: &'a BackendInfo,
    pub(super) hold: &'a Hold,
    pub(super) sink: &'a mut EventSink,
    /// The tool call that a stop overtook before brokerd heard of it.
    pub(super) never_sent: Option<CallId>,
    /// Where the turn stands in its tree.
    pub(super) standing: Standing,
    /// The child that the tool call under way waits for.
    pub(super) waiting: Option<Waiting>,
    /// Whether the turn was told that somebody wants it to stop.
    told_stop: bool,
}

impl Engine {
    /// Carries a turn to its end and keeps its conversation for the next one.
    pub(super) async fn carry_out(
        &self,
        turn: Turn,
        first: Vec<Command>,
        backend: &BackendInfo,
        standing: Standing,
        hold: &Hold,
        sink: &mut EventSink,
    ) {
        let is_root = standing.made_by.is_none();
        let (root, root_turn) = standing.root();
        let mut performance = Performance {
            engine: self,
            turn,
            backend,
            hold,
            sink,
            never_sent: None,
            standing,
            waiting: None,
            told_stop: false,
        };
        if let Err(error) = performance.run(first).await {
            // The turn and its shell disagree on what happens: a fault of ours. What is stored is
            // whole, so the turn is found unfinished and resumed at the next start.
            tracing::error!(session = %hold.session(), %error, "the turn can't go on");
            let problem = super::opening::internal(&error);
            performance.sink.send(TurnEvent::Refused { problem }).await;
        }
        if !is_root {
            // A helper's session takes no further message.
            return;
        }
        if let Some(conversation) = performance.turn.into_conversation() {
            self.live.keep(hold.session(), conversation);
        }
        self.trees.forget(&root, root_turn);
    }
}

impl Performance<'_> {
    async fn run(&mut self, first: Vec<Command>) -> Result<(), IllegalInput> {
        let mut queue = VecDeque::from(first);
        loop {
            if self.hold.stop().is_cancelled() && !self.told_stop {
                self.told_stop = true;
                queue.extend(self.turn.on(Input::Stop)?);
            }
            let Some(command) = queue.pop_front() else {
                return Ok(());
            };
            if let Some(input) = self.perform(command).await {
                queue.extend(self.turn.on(input)?);
            }
        }
    }

    /// One command; what came of it, unless its end is yet to come.
    async fn perform(&mut self, command: Command) -> Option<Input> {
        match command {
            Command::Commit(commit) => Some(self.commit(commit).await),
            Command::CallModel(call) => self.call_model(call).await,
            Command::StopModel { model_call } => Some(self.stop_model(model_call).await),
            Command::RunTool(run) => self.run_tool(run).await,
            Command::StopTool { call } => Some(self.stopped_tool(call).await),
            Command::Announce(event) => {
                self.sink.send(event).await;
                None
            }
            Command::End(report) => {
                self.sink.send(TurnEvent::End { report }).await;
                None
            }
        }
    }

    async fn commit(&mut self, commit: Commit) -> Input {
        let today = utc_day(jiff::Timestamp::now());
        let guardrails = &self.engine.config.guardrails;
        let batch = batch_of(&self.standing, commit, guardrails, today);
        match self.engine.store.commit(batch).await {
            Ok(committed) => Input::Committed {
                reserved: committed
                    .reserved
                    .map(|reserved| reserved.map_err(|refusal| refusal_of(&refusal))),
            },
            Err(error) => Input::CommitFailed {
                problem: Problem::from(error),
            },
        }
    }
}
