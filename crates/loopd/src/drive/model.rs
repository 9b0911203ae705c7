//! Makes a turn's model calls: the slot, the stream, the stop.

use super::inference::{Inference, InferenceError, Listener, ModelRequest, Piece, Way};
use super::opening::internal;
use super::perform::Performance;
use super::sink::EventSink;
use crate::prompt::{AnswerStream, Stage};
use crate::slots::{Ask, Permit};
use crate::turn::{Input, ModelCall, Spent};
use bxcore::chat::ModelAnswer;
use bxcore::code::Code;
use bxcore::id::ModelCallId;
use bxcore::label::Label;
use bxcore::problem::Problem;
use bxcore::usage::Receipt;
use bxcore::wire::inferproxy::{BackendOrigin, Lane, StopReply, Waiting};
use bxcore::wire::loopd::{Priority, TurnEvent, WaitReason};
use std::time::Duration;

/// How long who makes model calls may take to come back.
const INFERENCE_RETURN: Duration = Duration::from_secs(30);

impl Performance<'_> {
    /// Waits for a slot and makes the call; none if a stop came first, whose command follows.
    pub(super) async fn call_model(&mut self, call: ModelCall) -> Option<Input> {
        let stop = self.hold.stop().clone();
        tokio::select! {
            biased;
            () = stop.cancelled() => None,
            input = self.make_call(call) => Some(input),
        }
    }

    async fn make_call(&mut self, call: ModelCall) -> Input {
        let permit = match self.slot(call.stage).await {
            Ok(permit) => permit,
            Err(problem) => {
                return Input::CallFailed {
                    problem,
                    spent: Spent::Nothing,
                };
            }
        };
        let body = match self.turn.body(permit.slot()) {
            Ok(body) => body,
            Err(error) => {
                return Input::CallFailed {
                    problem: internal(&error),
                    spent: Spent::Nothing,
                };
            }
        };
        let session = self.turn.session().clone();
        let request = ModelRequest {
            backend: &self.backend.name,
            way: self.way(permit.slot(), call.stage),
            session: &session,
            call: call.model_call,
            body,
        };
        let inference = self.inference().clone();
        let mut viewer = Viewer {
            shown: (!call.stage.is_aside()).then(|| self.turn.answer_stream()),
            sink: &mut *self.sink,
            label: None,
        };
        bxkit::fault::point("loopd.before-model-call");
        let made = call_once_there(&inference, request, &mut viewer).await;
        let label = viewer.label;
        bxkit::fault::point("loopd.after-answer");
        self.engine.live.set_draining(&session, false);
        if let Some(event) = label.and_then(|label| self.turn.join(label)) {
            self.sink.send(event).await;
        }
        match made {
            Ok((answer, mut receipt)) => {
                receipt.taken_over = permit.taken_over();
                if !self.turn.believes(&receipt) {
                    let (prompt, completion) = (receipt.prompt_tokens, receipt.completion_tokens);
                    tracing::warn!(%session, prompt, completion, "the server's count of tokens can't be true");
                }
                Input::Answered { answer, receipt }
            }
            Err(error) => self.failed(&error).await,
        }
    }

    /// Who makes this turn's model calls.
    fn inference(&self) -> &Inference {
        if self.is_elsewhere() {
            self.engine.broker.models()
        } else {
            &self.engine.inference
        }
    }

    /// Whether a provider leads the session.
    fn is_elsewhere(&self) -> bool {
        self.backend.origin == BackendOrigin::Provider
    }

    fn way(&self, slot: Option<u32>, stage: Stage) -> Way {
        if self.is_elsewhere() {
            Way::Brokerd {
                label: self.turn.label(),
                reserved: self.turn.money_set_aside(),
            }
        } else {
            Way::Inferproxy {
                slot,
                lane: self.lane(stage),
            }
        }
    }

    /// Which slots a call is served on: one beside the conversation must not cost it its cache.
    fn lane(&self, stage: Stage) -> Lane {
        if stage.is_aside() {
            return Lane::Background;
        }
        self.standing.lane()
    }

    /// How a failed call goes on. A lost one can be made again once who makes it is back.
    async fn failed(&self, error: &InferenceError) -> Input {
        let problem = error.problem();
        let inference = self.inference();
        if matches!(error, InferenceError::Lost(_))
            && inference.wait_ready(INFERENCE_RETURN).await.is_ok()
        {
            tracing::warn!(session = %self.turn.session(), %problem, "a model call was lost");
            return Input::CallLost { problem };
        }
        Input::CallFailed {
            problem,
            spent: spent(error),
        }
    }

    async fn slot(&mut self, stage: Stage) -> Result<Permit, Problem> {
        let ask = Ask {
            backend: self.backend.name.clone(),
            lane: self.lane(stage),
            priority: match stage {
                Stage::Summary => Priority::Compaction,
                Stage::Result => Priority::ToolSummary,
                Stage::Open | Stage::Last | Stage::Memory => self.standing.priority(),
            },
            session: self.turn.session().clone(),
            preferred: self
                .turn
                .conversation()
                .last_slot()
                .filter(|_| !stage.is_aside()),
        };
        let mut ahead = None;
        let gate = self.engine.gate.clone();
        let mut permit = std::pin::pin!(gate.acquire(ask, |others| ahead = Some(others)));
        // The first poll tells whether there is a wait, which the listener wants to know at once.
        let granted = futures_util::poll!(permit.as_mut());
        let granted = match granted {
            std::task::Poll::Ready(granted) => granted,
            std::task::Poll::Pending => {
                let reason = WaitReason::Slot {
                    ahead: self.waiting_ahead(),
                };
                self.sink.send(TurnEvent::Waiting { reason }).await;
                permit.await
            }
        };
        granted.map_err(|error| {
            Problem::new(Code::SlotBusy, "No slot can be had").detail(error.to_string())
        })
    }

    /// How many requests wait at the backend before this one.
    fn waiting_ahead(&self) -> usize {
        let rows = self.engine.gate.rows();
        let waits =
            |row: &&bxcore::wire::loopd::GateRow| !row.holds && row.backend == self.backend.name;
        rows.iter().filter(waits).count().saturating_sub(1)
    }

    /// Makes sure that a call which was dropped is over at the server too.
    pub(super) async fn stop_model(&mut self, model_call: ModelCallId) -> Input {
        let session = self.turn.session().clone();
        // A provider's call ended with its stream: brokerd closes the connection.
        let reply = if self.is_elsewhere() {
            Ok(StopReply::NotRunning)
        } else {
            self.engine.inference.stop(&session, model_call).await
        };
        self.engine
            .live
            .set_draining(&session, matches!(reply, Ok(StopReply::Draining)));
        if let Err(error) = &reply {
            tracing::warn!(%session, %error, "a stopped call could not be confirmed as over");
        }
        let problem = Problem::new(Code::Stopped, "The turn was stopped");
        // What a stopped call used is not told by the server, so its whole reservation is charged.
        Input::CallFailed {
            problem,
            spent: Spent::Unknown,
        }
    }
}

/// Makes a call; where who makes it is not there, waits for it and tries once more. Nothing of the
/// first try was made, so that it is the same call.
async fn call_once_there(
    inference: &Inference,
    request: ModelRequest<'_>,
    listener: &mut impl Listener,
) -> Result<(ModelAnswer, Receipt), InferenceError> {
    let made = inference.call(request.clone(), listener).await;
    if matches!(made, Err(InferenceError::Unreachable(_)))
        && inference.wait_ready(INFERENCE_RETURN).await.is_ok()
    {
        return inference.call(request, listener).await;
    }
    made
}

/// Shows an answer to whoever listens to the turn, as it arrives.
struct Viewer<'a> {
    /// None where what is written is not for whoever listens.
    shown: Option<AnswerStream>,
    sink: &'a mut EventSink,
    /// The session's label, if the answer has changed it.
    label: Option<Label>,
}

impl Listener for Viewer<'_> {
    async fn hear(&mut self, piece: Piece<'_>) {
        let event = match piece {
            Piece::Waiting(waiting) => TurnEvent::Waiting {
                reason: reason_of(&waiting),
            },
            Piece::Label(label) => {
                self.label = Some(label);
                return;
            }
            Piece::Prefill(progress) => TurnEvent::Prefill { progress },
            Piece::Reasoning(_) | Piece::Content(_) if self.shown.is_none() => return,
            Piece::Reasoning(text) => TurnEvent::Reasoning {
                text: text.to_owned(),
            },
            Piece::Content(text) => match self.shown.as_mut().map(|shown| shown.push(text)) {
                Some(text) if !text.is_empty() => TurnEvent::Delta { text },
                _ => return,
            },
        };
        self.sink.send(event).await;
    }
}

fn reason_of(waiting: &Waiting) -> WaitReason {
    match *waiting {
        Waiting::Loading => WaitReason::Loading,
        Waiting::Draining => WaitReason::Draining,
        Waiting::RetryAfter { ms } => WaitReason::RetryAfter { ms },
    }
}

/// What a failed call used, as far as anybody can tell.
fn spent(error: &InferenceError) -> Spent {
    match error {
        InferenceError::Refused(problem) => match problem.code {
            // The server never began.
            Code::BackendUnknown
            | Code::BackendUnreachable
            | Code::BackendLoading
            | Code::BackendSlotMissing
            | Code::BackendBusy
            | Code::NoBackend
            | Code::SlotNotOwned
            | Code::SlotBusy
            | Code::FieldNotAllowed
            | Code::ContextFull
            // brokerd said no before anything left.
            | Code::NoGrant
            | Code::DeniedByGuardrail
            | Code::InvalidArguments
            | Code::TaintTooHigh
            | Code::UntrustedSession
            | Code::SecretInPayload
            | Code::SecretUnreadable
            | Code::BudgetExhausted
            | Code::ApprovalUnroutable
            // The provider did not take it.
            | Code::ProviderRefused => Spent::Nothing,
            _ => Spent::Unknown,
        },
        InferenceError::Unreachable(_) => Spent::Nothing,
        InferenceError::Answer(_) | InferenceError::Lost(_) | InferenceError::Broken(_) => {
            Spent::Unknown
        }
    }
}
