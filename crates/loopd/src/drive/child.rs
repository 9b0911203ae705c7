//! Children: made for a tool call of their parent's turn, worked as turns of their own, and their
//! end handed over once.

use super::choosing::Chosen;
use super::engine::Engine;
use super::holds::Hold;
use super::opening::{Ground, internal};
use super::perform::Performance;
use super::sink::EventSink;
use crate::delegation::{ChildEnd, Delegation, Standing, child_of, needs_approval};
use crate::prompt::recorded_answer;
use crate::session::encode;
use crate::slots::Layout;
use crate::store::Unfinished;
use crate::tools::time_line;
use crate::turn::{Lost, Opening, RunTool, Turn, unfinished};
use bxcore::audit::sha256_hex;
use bxcore::chat::RawMessage;
use bxcore::code::Code;
use bxcore::id::{CallId, SessionId};
use bxcore::label::Label;
use bxcore::money::MicroUsd;
use bxcore::problem::Problem;
use bxcore::transcript::{CallOutcome, Entry, Line, Open, ToolMode, TurnEnd, TurnOutcome, User};
use bxcore::usage::Usage;
use bxcore::wire::brokerd::CallResult;
use bxcore::wire::inferproxy::BackendInfo;
use bxcore::wire::loopd::TurnEvent;
use bxkit::rpc::CallError;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// A child that its parent waits for.
#[derive(Debug)]
pub(super) struct Waiting {
    child: SessionId,
    stop: CancellationToken,
    events: mpsc::Receiver<TurnEvent>,
    end: oneshot::Receiver<Result<ChildEnd, Problem>>,
    /// Its end, once that has come, until it is handed over.
    ended: Option<ChildEnd>,
}

impl Performance<'_> {
    /// Has a child work on a task, and waits for its end.
    ///
    /// Dropping the future changes nothing for the child: it is stopped by [`Self::stop_child`].
    pub(super) async fn run_child(&mut self, run: &RunTool) -> CallResult {
        let engine = self.engine;
        let known = run.resumed && engine.is_there(&self.standing, run).await;
        let opened = Delegation::open(
            &self.standing,
            run.call,
            &run.arguments,
            &engine.trees,
            known,
        );
        let delegation = match opened {
            Ok(delegation) => delegation,
            Err(refused) => {
                return crate::turn::own_result(CallOutcome::Denied, refused.code, &refused.text);
            }
        };
        // One that is there has been approved.
        if !known && needs_approval(&self.standing.rules) {
            let approved = self.run_at_broker(run.clone()).await;
            if approved.outcome != CallOutcome::Ok {
                return approved;
            }
        }
        let Some(shared) = engine.shared() else {
            return self.not_run(&Problem::new(Code::Stopped, "loopd is ending"));
        };
        let label = self.turn.label();
        self.waiting = Some(shared.spawn_child(delegation, label, self.backend.clone()));
        self.await_child().await
    }

    /// Ends the child of a call, if there is one, and gives its end.
    pub(super) async fn stop_child(&mut self, call: CallId) -> Option<CallResult> {
        if let Some(waiting) = &self.waiting {
            waiting.stop.cancel();
            return Some(self.await_child().await);
        }
        // One that an earlier start made, and that is resumed by itself.
        let child = child_of(self.turn.session(), call).ok()?;
        if !self.engine.holds.stop(&child) {
            return None;
        }
        drop(self.engine.holds.take(&child).await);
        let lines = self.engine.lines(&child).await.unwrap_or_default();
        let end = match ended(&child, &lines) {
            Some(end) => end,
            None => self.unknown_end(child, gone()).await,
        };
        Some(self.hand_over(&end).await)
    }

    /// Passes on what the child does, until it has ended.
    async fn await_child(&mut self) -> CallResult {
        let end = loop {
            let Some(waiting) = &mut self.waiting else {
                return self.not_run(&gone());
            };
            if let Some(end) = &waiting.ended {
                break end.clone();
            }
            tokio::select! {
                biased;
                Some(event) = waiting.events.recv() => {
                    let session = waiting.child.clone();
                    let event = Box::new(event);
                    self.sink.send(TurnEvent::Child { session, event }).await;
                }
                told = &mut waiting.end => {
                    if told.is_err() && self.engine.shutdown.is_cancelled() {
                        // It has no end yet: the next start goes on with both.
                        return std::future::pending().await;
                    }
                    let child = waiting.child.clone();
                    let end = match told.unwrap_or_else(|_| Err(gone())) {
                        Ok(end) => end,
                        Err(problem) => self.unknown_end(child, problem).await,
                    };
                    // Kept until it is handed over: a stop may come in between.
                    if let Some(waiting) = &mut self.waiting {
                        waiting.ended = Some(end);
                    }
                }
            }
        };
        let result = self.hand_over(&end).await;
        self.waiting = None;
        result
    }

    /// The end of a child that has none in its transcript. What it has read is brokerd's to know.
    async fn unknown_end(&self, child: SessionId, problem: Problem) -> ChildEnd {
        let label = match self.engine.broker.held(&child).await {
            Ok(held) => held.label,
            // It never came as far as to read anything.
            Err(CallError::Refused(problem)) if problem.code == Code::SessionUnknown => {
                self.turn.label()
            }
            Err(_) => Label::TOP,
        };
        ChildEnd {
            child,
            outcome: TurnOutcome::Failed,
            answer: String::new(),
            problem: Some(problem),
            label,
            usage: Usage::default(),
            cost: MicroUsd::ZERO,
            log_sha256: None,
        }
    }

    /// Joins what the child has read to the session, at brokerd, before the model reads its answer.
    async fn hand_over(&self, end: &ChildEnd) -> CallResult {
        bxkit::fault::point("loopd.before-child-label");
        let engine = self.engine;
        let made_by = self.standing.made_by.as_ref();
        let session = self.turn.session();
        let raised = match engine.authority(session, end.label, made_by).await {
            Err(problem) if problem.code == Code::RoleUnreachable => {
                match Box::pin(engine.roles_return(problem)).await {
                    Ok(()) => engine.authority(session, end.label, made_by).await,
                    Err(problem) => Err(problem),
                }
            }
            raised => raised,
        };
        match raised {
            Ok((authority, _)) => end.result(authority.label, engine.config.compact.summary_chars),
            // Nothing of the answer may be read without its label.
            Err(problem) => CallResult {
                label: end.label,
                session_label: end.label,
                ..self.not_run(&problem)
            },
        }
    }
}

impl Engine {
    /// Whether the child of a call was begun by an earlier start.
    async fn is_there(&self, parent: &Standing, run: &RunTool) -> bool {
        match child_of(&parent.session, run.call) {
            Ok(child) => self.store.session(&child).await.is_ok(),
            Err(_) => false,
        }
    }

    /// Begins a child's work, or goes on with it.
    fn spawn_child(
        self: &Arc<Self>,
        delegation: Delegation,
        label: Label,
        backend: BackendInfo,
    ) -> Waiting {
        let (mut sink, events) = EventSink::channel();
        let (tell, end) = oneshot::channel();
        let stop = CancellationToken::new();
        let child = delegation.child.clone();
        let engine = Arc::clone(self);
        let stopped = stop.clone();
        self.spawn("child", async move {
            let ended = engine
                .child(delegation, label, backend, stopped, &mut sink)
                .await;
            // Whoever asked may be gone; the transcript has the end.
            let _ = tell.send(ended);
        });
        Waiting {
            child,
            stop,
            events,
            end,
            ended: None,
        }
    }

    async fn child(
        &self,
        delegation: Delegation,
        label: Label,
        backend: BackendInfo,
        stop: CancellationToken,
        sink: &mut EventSink,
    ) -> Result<ChildEnd, Problem> {
        let child = &delegation.child;
        // One that a start resumes holds itself until it has ended.
        let hold = self.hold_child(child, &stop).await?;
        let turn_stop = hold.stop().clone();
        let _linked = AbortOnDropHandle::new(tokio::spawn(async move {
            stop.cancelled().await;
            turn_stop.cancel();
        }));
        let lines = self.lines(child).await?;
        if lines.is_empty() {
            match self
                .begin_child(&delegation, label, &backend, &hold, sink)
                .await
            {
                // Somebody died and is being started again; nothing has begun yet.
                Err(problem) if problem.code == Code::RoleUnreachable => {
                    Box::pin(self.roles_return(problem)).await?;
                    self.begin_child(&delegation, label, &backend, &hold, sink)
                        .await?;
                }
                begun => begun?,
            }
        } else if unfinished(&lines).is_some() {
            let left = Unfinished {
                session: child.clone(),
                turn: delegation.turn(),
                account: None,
            };
            self.try_resume(&hold, &left, sink).await?;
        }
        bxkit::fault::point("loopd.after-child");
        let lines = self.lines(child).await?;
        ended(child, &lines).ok_or_else(|| {
            let title = format!("The helper `{child}` has no end yet");
            Problem::new(Code::Interrupted, title)
        })
    }

    /// The hold of a child. Where a stop comes while another start's work has it, that is stopped.
    async fn hold_child(
        &self,
        child: &SessionId,
        stop: &CancellationToken,
    ) -> Result<Hold, Problem> {
        let mut taking = std::pin::pin!(self.holds.take(child));
        let taken = tokio::select! {
            taken = taking.as_mut() => taken,
            () = stop.cancelled() => {
                self.holds.stop(child);
                taking.await
            }
        };
        taken.map_err(|error| {
            Problem::new(Code::SessionHeld, "The helper can't begin").detail(error.to_string())
        })
    }

    async fn begin_child(
        &self,
        delegation: &Delegation,
        label: Label,
        backend: &BackendInfo,
        hold: &Hold,
        sink: &mut EventSink,
    ) -> Result<(), Problem> {
        let child = &delegation.child;
        let past = self.past(child).await?;
        let chosen = self.ready_backend(Some(&backend.name), None, sink).await?;
        let Chosen { backend, provider } = chosen;
        if let Some(provider) = &provider {
            self.admitted(child, &past, label, provider).await?;
        }
        self.gate.declare(&backend.name, &Layout::of(&backend));
        let made_by = (delegation.parent.clone(), delegation.lineage.clone());
        let (authority, catalog) = self.authority(child, label, Some(&made_by)).await?;
        let class = authority.label.class;
        let epoch = self.next_epoch(&past.conversation, &backend, class).await?;
        let standing = Standing {
            session: child.clone(),
            turn: delegation.turn(),
            made_by: Some(made_by),
            rules: authority.rules.clone(),
        };
        let opening = Opening {
            open: Some(Open {
                session: child.clone(),
                parent: Some(delegation.parent.clone()),
                lineage: Some(delegation.lineage.clone()),
                label: authority.label,
            }),
            epoch: epoch.clone(),
            user: User {
                turn: delegation.turn(),
                label: authority.label,
                memory: None,
                message: RawMessage::user(&format!(
                    "{}\n\n{}",
                    time_line(&jiff::Zoned::now()),
                    delegation.task
                )),
            },
        };
        let ground = Ground {
            backend,
            provider,
            authority,
            catalog,
            epoch,
        };
        let context = self.context(child, &past, &ground, Lost::default());
        let begun = Turn::begin(context, past.conversation, opening);
        let (turn, first) = begun.map_err(|error| internal(&error))?;
        self.carry_out(turn, first, &ground.backend, standing, hold, sink)
            .await;
        Ok(())
    }

    async fn lines(&self, session: &SessionId) -> Result<Vec<Line>, Problem> {
        match self.store.load(session).await {
            Ok(lines) => Ok(lines),
            Err(crate::store::StoreError::SessionUnknown(_)) => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }
}

/// The hash of a transcript, as its file has it.
fn sha256_of(lines: &[Line]) -> Option<String> {
    let text: Option<String> = lines.iter().map(encode).collect();
    Some(sha256_hex(text?.as_bytes()))
}

/// How a child ended by its transcript; none while it has no end.
fn ended(child: &SessionId, lines: &[Line]) -> Option<ChildEnd> {
    let Entry::TurnEnd(end) = &lines.last()?.entry else {
        return None;
    };
    let answer = lines.iter().rev().find_map(|line| match &line.entry {
        Entry::Assistant(answer) => Some(answer),
        _ => None,
    });
    let said = answer.map(|answer| {
        let mode = match answer.rung {
            Some(_) => ToolMode::Schema,
            None => ToolMode::Native,
        };
        recorded_answer(mode, &answer.message)
    });
    // What a limit cut short is handed over as far as it came.
    let has_answer = matches!(
        end.outcome,
        TurnOutcome::Completed | TurnOutcome::Halted | TurnOutcome::ContextFull
    );
    Some(ChildEnd {
        child: child.clone(),
        outcome: end.outcome,
        answer: said
            .filter(|_| has_answer)
            .map(|said| said.trim().to_owned())
            .unwrap_or_default(),
        problem: problem_of(end),
        label: end.label,
        usage: end.usage,
        cost: end.cost,
        log_sha256: sha256_of(lines),
    })
}

fn problem_of(end: &TurnEnd) -> Option<Problem> {
    let code = end.code?;
    let title = match end.outcome {
        TurnOutcome::Stopped => "The helper was stopped",
        TurnOutcome::Halted => "The helper was halted by a limit",
        TurnOutcome::ContextFull => "The helper's conversation no longer fits the model's context",
        TurnOutcome::Completed | TurnOutcome::Failed => "The helper failed",
    };
    let problem = Problem::new(code, title);
    Some(match &end.detail {
        Some(detail) => problem.detail(detail.clone()),
        None => problem,
    })
}

fn gone() -> Problem {
    Problem::new(Code::Interrupted, "The helper's work broke off")
}
