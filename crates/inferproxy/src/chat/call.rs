//! One model call from its slot to its receipt.
//!
//! Whatever breaks it off (a stop, a caller that is gone, a failure) drops the connection to the
//! server first; then the slot is drained if the server may still be at work, else released.

use super::drain::{Progress, drain};
use super::events::{AnswerSender, send_problem, send_receipt, send_waiting};
use super::head::ChatHead;
use super::life::LifeWatch;
use super::refusal::{Refusal, read_refusal};
use super::relay::{Liveness, RelayError, cut_off, relay};
use super::running::RunningCall;
use crate::backend::{Answer, Backend, Reuse, connect_problem, unusable_problem};
use crate::dump::Dump;
use crate::limits::{Limits, MAX_PAUSES, WAITING_EVENT_SECS};
use crate::metrics::{CallLabels, Outcome, call_began, call_ended, call_measured};
use crate::slots::{Holder, Refusal as SlotRefusal, SlotHold};
use axum::http::{StatusCode, header};
use bxcore::chat::{CallFacts, Meter};
use bxcore::code::Code;
use bxcore::problem::Problem;
use bxcore::usage::Receipt;
use bxcore::wire::inferproxy::{BackendKind, BackendState, Waiting};
use bxkit::fault;
use bytes::Bytes;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

/// How long to wait before a connection that failed is tried a second and last time.
const CONNECT_RETRY_MS: u64 = 200;
/// How long the end of an answer's body may take after its last event.
const BODY_END_MS: u64 = 50;
/// Where chat completions are asked for.
const CHAT_PATH: &str = "/v1/chat/completions";

/// What a call needs from its surroundings.
#[derive(Debug, Clone)]
pub(super) struct Surroundings {
    pub(super) limits: Limits,
    pub(super) dump: Option<Dump>,
    pub(super) shutdown: CancellationToken,
}

/// One call.
#[derive(Debug)]
pub(super) struct Call {
    head: ChatHead,
    backend: Arc<Backend>,
    kind: BackendKind,
    body: Bytes,
    around: Surroundings,
    began: Instant,
    loading_since: Option<Instant>,
    pauses: u32,
    hold: Option<SlotHold>,
    permit: Option<OwnedSemaphorePermit>,
    sent: Option<Instant>,
    /// The server may be at work on it.
    in_flight: bool,
    meter: Meter,
}

/// How a call ended.
#[derive(Debug)]
enum End {
    Complete(Receipt, Answer),
    Failed(Problem),
    Stopped,
    Gone,
}

impl From<RelayError> for End {
    fn from(error: RelayError) -> Self {
        match error {
            RelayError::Gone => Self::Gone,
            RelayError::Failed(problem) => Self::Failed(problem),
        }
    }
}

impl Call {
    /// A call that is admitted. On a ready server its slot is claimed now.
    ///
    /// # Errors
    /// The slot is not the lane's, or another call has it.
    pub(super) fn admit(
        head: ChatHead,
        backend: Arc<Backend>,
        body: Bytes,
        around: Surroundings,
    ) -> Result<Self, Problem> {
        let info = backend.current().info.clone();
        let mut call = Self {
            head,
            kind: info.kind,
            backend,
            body,
            around,
            began: Instant::now(),
            loading_since: None,
            pauses: 0,
            hold: None,
            permit: None,
            sent: None,
            in_flight: false,
            meter: Meter::default(),
        };
        if info.state == BackendState::Ready {
            call.claim()?;
        }
        Ok(call)
    }

    /// Makes the call; returns when its slot is free again.
    pub(super) async fn run(mut self, running: RunningCall, out: AnswerSender) {
        let labels = CallLabels {
            backend: self.backend.spec().name.to_string(),
            model: self.backend.current().info.model.clone(),
            lane: self.head.lane,
        };
        call_began(&labels);
        let shutdown = self.around.shutdown.clone();
        let end = tokio::select! {
            biased;
            () = running.stopped() => End::Stopped,
            () = out.closed() => End::Gone,
            () = shutdown.cancelled() => End::Stopped,
            end = self.work(&out) => end,
        };
        self.finish(end, &labels, out).await;
        drop(running);
    }

    async fn work(&mut self, out: &AnswerSender) -> End {
        match self.answer(out).await {
            Ok(answer) => End::Complete(self.receipt(), answer),
            Err(error) => error.into(),
        }
    }

    async fn answer(&mut self, out: &AnswerSender) -> Result<Answer, RelayError> {
        self.get_ready(out).await?;
        if let Some(dump) = &self.around.dump {
            dump.append(self.body.clone()).await;
        }
        // Bounded by the waits for loading and for pauses, and a single second connection.
        let mut connect_again = true;
        loop {
            let Some(mut answer) = self.send(&mut connect_again).await? else {
                continue;
            };
            if answer.status == StatusCode::OK {
                let sent = self.sent.unwrap_or(self.began);
                let mut life = liveness(&self.backend, self.slot(), &self.around.limits);
                relay(&mut answer, &mut self.meter, sent, &mut life, out).await?;
                self.in_flight = false;
                return Ok(answer);
            }
            self.refused(answer, out).await?;
        }
    }

    /// Waits for the model to be loaded, then for the slot or for a turn at a server without slots.
    async fn get_ready(&mut self, out: &AnswerSender) -> Result<(), RelayError> {
        if self.backend.current().info.state != BackendState::Ready {
            self.wait_until_loaded(out).await?;
        }
        if self.kind == BackendKind::LlamaServer {
            if self.hold.is_none() {
                self.claim()?;
            }
            return self.wait_until_drained(out).await;
        }
        let permits = Arc::clone(self.backend.permits());
        // Never closed: the semaphore lives as long as its backend.
        self.permit = permits.acquire_owned().await.ok();
        Ok(())
    }

    fn claim(&mut self) -> Result<(), Problem> {
        let name = &self.backend.spec().name;
        let slot = match (self.kind, self.head.slot) {
            (BackendKind::LlamaServer, Some(slot)) => slot,
            (BackendKind::Openai, None) => return Ok(()),
            (BackendKind::LlamaServer, None) => {
                return Err(not_owned(&format!(
                    "`{name}` has slots, and the call names none"
                )));
            }
            (BackendKind::Openai, Some(_)) => {
                return Err(not_owned(&format!(
                    "`{name}` has no slots, and the call names one"
                )));
            }
        };
        let holder = Holder {
            session: self.head.session.clone(),
            call: self.head.call,
        };
        let claimed = self.backend.slots().claim(self.head.lane, slot, holder);
        self.hold = Some(claimed.map_err(|refusal| slot_problem(&self.head, slot, &refusal))?);
        Ok(())
    }

    async fn wait_until_drained(&self, out: &AnswerSender) -> Result<(), RelayError> {
        let Some(hold) = &self.hold else {
            return Ok(());
        };
        let again = Duration::from_secs(WAITING_EVENT_SECS);
        // Bounded by the time for which a slot may drain.
        while !hold.may_start() {
            send_waiting(out, &Waiting::Draining).await?;
            let _ = tokio::time::timeout(again, hold.started()).await;
        }
        Ok(())
    }

    async fn wait_until_loaded(&mut self, out: &AnswerSender) -> Result<(), RelayError> {
        let since = *self.loading_since.get_or_insert_with(Instant::now);
        let mut told: Option<Instant> = None;
        loop {
            if told.is_none_or(|at| at.elapsed() >= Duration::from_secs(WAITING_EVENT_SECS)) {
                send_waiting(out, &Waiting::Loading).await?;
                told = Some(Instant::now());
            }
            tokio::time::sleep(self.around.limits.loading_poll).await;
            let known = self.backend.fresh().await;
            self.kind = known.info.kind;
            match (known.info.state, unusable_problem(&known.info)) {
                (BackendState::Ready, _) | (_, None) => return Ok(()),
                (BackendState::Loading, Some(problem)) => {
                    if since.elapsed() > self.around.limits.loading_wait {
                        return Err(problem.into());
                    }
                }
                (_, Some(problem)) => return Err(problem.into()),
            }
        }
    }

    /// Sends the body; none if it should be tried again.
    async fn send(&mut self, connect_again: &mut bool) -> Result<Option<Answer>, RelayError> {
        fault::point("inferproxy.before-send");
        let reuse = match self.kind {
            BackendKind::LlamaServer => Reuse::Never,
            BackendKind::Openai => Reuse::Allowed,
        };
        self.sent = Some(Instant::now());
        self.in_flight = true;
        let mut life = liveness(&self.backend, self.slot(), &self.around.limits);
        let posted = self
            .backend
            .upstream()
            .post(CHAT_PATH, self.body.clone(), reuse);
        let error = match life.guard(posted).await? {
            Ok(answer) => return Ok(Some(answer)),
            Err(error) => error,
        };
        if !error.nothing_was_sent() {
            return Err(cut_off(&self.backend, &self.meter, Some(&error)).into());
        }
        self.in_flight = false;
        self.backend.distrust();
        if !std::mem::take(connect_again) {
            let spec = self.backend.spec();
            return Err(connect_problem(spec.name.as_str(), &spec.url.to_string(), &error).into());
        }
        tokio::time::sleep(Duration::from_millis(CONNECT_RETRY_MS)).await;
        Ok(None)
    }

    /// Reads a status that is not 200 and waits where the server asks for it.
    async fn refused(&mut self, answer: Answer, out: &AnswerSender) -> Result<(), RelayError> {
        let status = answer.status;
        let retry_after = answer.headers.get(header::RETRY_AFTER).cloned();
        let retry_after = retry_after.as_ref().and_then(|value| value.to_str().ok());
        let mut life = liveness(&self.backend, self.slot(), &self.around.limits);
        let body = match life.guard(answer.read()).await? {
            Ok(reply) => reply.body,
            Err(_) => Bytes::new(),
        };
        self.in_flight = false;
        let name = self.backend.spec().name.clone();
        match read_refusal(name.as_str(), status, retry_after, &body) {
            Refusal::Final(problem) => Err(problem.into()),
            Refusal::Loading => {
                self.backend.distrust();
                let since = *self.loading_since.get_or_insert_with(Instant::now);
                if since.elapsed() > self.around.limits.loading_wait {
                    let text = String::from_utf8_lossy(&body[..body.len().min(200)]).into_owned();
                    return Err(Problem::new(
                        Code::BackendLoading,
                        format!("The model server `{name}` does not get ready"),
                    )
                    .detail(format!("it answers 503: {text}"))
                    .hint("look at the server's log")
                    .into());
                }
                self.wait_until_loaded(out).await
            }
            Refusal::Pause(pause) => {
                self.pauses += 1;
                if pause > self.around.limits.retry_after_max || self.pauses > MAX_PAUSES {
                    return Err(Problem::new(
                        Code::BackendBusy,
                        format!("The model server `{name}` is busy"),
                    )
                    .detail(format!("it asks for a pause of {} s", pause.as_secs()))
                    .hint("try again later")
                    .into());
                }
                let ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
                send_waiting(out, &Waiting::RetryAfter { ms }).await?;
                tokio::time::sleep(pause).await;
                Ok(())
            }
        }
    }

    fn slot(&self) -> Option<u32> {
        self.hold.as_ref().map(SlotHold::slot)
    }

    fn receipt(&self) -> Receipt {
        let sent = self.sent.unwrap_or(self.began);
        self.meter.receipt(&CallFacts {
            slot: self.slot(),
            waited: sent.duration_since(self.began),
            body_bytes: self.body.len(),
        })
    }

    /// Lets go of the slot, tells the caller how it ended, and waits for the slot to drain.
    ///
    /// The slot is free before the caller hears of the end, since its next call may need it.
    async fn finish(mut self, end: End, labels: &CallLabels, out: AnswerSender) {
        let progress = if self.meter.has_begun() {
            Progress::Begun
        } else {
            Progress::Unknown
        };
        let drains = match self.hold.take() {
            Some(hold) if self.in_flight => hold.drain(),
            _ => None,
        };
        self.permit = None;
        let took = self.began.elapsed();
        match end {
            End::Complete(receipt, answer) => {
                call_ended(labels, Outcome::Complete, took);
                call_measured(labels, &receipt, self.meter.first_word());
                fault::point("inferproxy.before-receipt");
                // A caller that has gone now has the whole answer.
                let _ = send_receipt(&out, &receipt).await;
                drop(out);
                self.settle(answer).await;
            }
            End::Failed(problem) => {
                call_ended(labels, Outcome::Failed(problem.code), took);
                tracing::warn!(backend = %labels.backend, session = %self.head.session, %problem, "a model call failed");
                let _ = send_problem(&out, &problem).await;
                drop(out);
            }
            End::Stopped => {
                call_ended(labels, Outcome::Stopped, took);
                let _ = send_problem(
                    &out,
                    &Problem::new(Code::Stopped, "The model call was stopped"),
                )
                .await;
                drop(out);
            }
            End::Gone => {
                call_ended(labels, Outcome::Gone, took);
                drop(out);
            }
        }
        if let Some(slot) = drains {
            drain(&self.backend, slot, progress, &self.around.limits).await;
        }
    }

    /// Reads an answer's body to its end, so that the server sees a whole exchange and the
    /// connection can serve another one.
    async fn settle(&self, mut answer: Answer) {
        let end = tokio::time::timeout(Duration::from_millis(BODY_END_MS), answer.piece());
        if let (Ok(None), BackendKind::Openai) = (end.await, self.kind) {
            self.backend.upstream().keep(answer);
        }
    }
}

fn liveness<'a>(backend: &'a Backend, slot: Option<u32>, limits: &Limits) -> Liveness<'a> {
    Liveness {
        backend,
        slot,
        allowed: limits.liveness,
        watch: LifeWatch::default(),
    }
}

fn not_owned(detail: &str) -> Problem {
    Problem::new(Code::SlotNotOwned, "A model call may not use this slot").detail(detail.to_owned())
}

fn slot_problem(head: &ChatHead, slot: u32, refusal: &SlotRefusal) -> Problem {
    let (name, lane) = (&head.backend, head.lane.name());
    match refusal {
        SlotRefusal::NotOwned { owned } => not_owned(&format!(
            "slot {slot} of `{name}` is not for {lane}, which has {owned:?}"
        )),
        SlotRefusal::Busy(holder) => {
            Problem::new(Code::SlotBusy, format!("Slot {slot} of `{name}` is busy")).detail(
                format!("with call {} of session `{}`", holder.call, holder.session),
            )
        }
    }
}
