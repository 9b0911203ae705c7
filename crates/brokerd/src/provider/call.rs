//! One model call to a provider: one request, its answer passed on as it comes.

use super::Provider;
use super::failure::ProviderFailure;
use super::passing::Passing;
use crate::audit::Raw;
use crate::egress::{EgressError, Incoming, Refusal};
use bxcore::money::MicroUsd;
use bxcore::usage::{Charge, Receipt, UsageSource};
use bxkit::fault;
use bxkit::rpc::{ReaderGone, StreamSender};
use bytes::Bytes;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The longest that a call may take, however lively its answer is, in seconds.
pub const MAX_CALL_SECS: u64 = 3_600;
/// How many times `between_ms` an answer may go on without a word of it, in comments or in events
/// with nothing in them: a model may think for long, but not for ever.
const EMPTY_FACTOR: u64 = 10;
/// How long an answer that has said why it ended may take to close its stream, in milliseconds.
const END_MS: u64 = 5_000;
/// How many times what was set aside a provider may say that a call cost before it is not
/// believed; loopd does the same with tokens.
const MAX_COST_FACTOR: i64 = 4;

/// A call that has ended.
#[derive(Debug)]
pub struct Called {
    /// What was measured, or why there is no whole answer.
    pub outcome: Result<Receipt, ProviderFailure>,
    /// What came of the answer's text.
    pub text: String,
    /// All bytes that came.
    pub raw: Raw,
    /// What it cost.
    pub charge: Charge,
}

impl From<ReaderGone> for ProviderFailure {
    fn from(_: ReaderGone) -> Self {
        Self::Stopped { sent: true }
    }
}

impl Provider {
    /// Sends a body that is on record, and passes the answer on. One request at the most.
    ///
    /// Whoever reads `out` may go away: that ends the call.
    pub async fn call(&self, body: Bytes, reserved: MicroUsd, out: &StreamSender) -> Called {
        let mut passing = Passing::without(self.secrets.clone());
        let most = Duration::from_secs(MAX_CALL_SECS);
        // A call that waits for its turn has sent nothing, whoever ends it.
        let may_be_sent = AtomicBool::new(false);
        let exchange = self.exchange(body, &may_be_sent, &mut passing, out);
        let exchange = tokio::time::timeout(most, exchange);
        let sent = || may_be_sent.load(Ordering::Relaxed);
        let outcome = tokio::select! {
            biased;
            () = out.reader_gone() => Err(ProviderFailure::Stopped { sent: sent() }),
            done = exchange => done.unwrap_or_else(|_| {
                let timeout_ms = MAX_CALL_SECS * 1_000;
                Err(EgressError::TimedOut { timeout_ms, sent: sent() }.into())
            }),
        };
        let charge = match &outcome {
            Ok(receipt) => self.charge(receipt, reserved),
            Err(failure) => {
                let (class, cause) = (failure.class(), failure.cause());
                tracing::warn!(class, cause, "a model call got no whole answer: {failure}");
                metrics::counter!("boxmaker_provider_failures_total", "class" => class)
                    .increment(1);
                if failure.may_have_cost() {
                    Charge::whole(reserved)
                } else {
                    Charge::NOTHING
                }
            }
        };
        let (text, raw) = passing.into_record();
        Called {
            outcome,
            text,
            raw,
            charge,
        }
    }

    async fn exchange(
        &self,
        body: Bytes,
        may_be_sent: &AtomicBool,
        passing: &mut Passing,
        out: &StreamSender,
    ) -> Result<Receipt, ProviderFailure> {
        let began = Instant::now();
        // Never closed: the semaphore lives as long as its provider.
        let permit = self.permits.acquire().await;
        let _permit = permit.map_err(|_| ProviderFailure::Stopped { sent: false })?;
        let secret = self.secrets.get(&self.settings.secret);
        let secret = secret.ok_or(ProviderFailure::NoSecret)?;
        let body_bytes = body.len();
        let sent = Instant::now();
        fault::point("brokerd.before-send");
        may_be_sent.store(true, Ordering::Relaxed);
        let first_byte_ms = self.settings.first_byte_ms;
        let incoming = self
            .client
            .post_for_events(Some(secret.expose()), body, first_byte_ms);
        let incoming = incoming.await?;
        if let Some(refusal) = Refusal::of(incoming.status(), incoming.retry_after()) {
            return Err(refusal.into());
        }
        if !incoming.is_events() {
            return Err(ProviderFailure::NotEvents);
        }
        self.relay(incoming, sent, passing, out).await?;
        fault::point("brokerd.after-send");
        passing.receipt(body_bytes, sent.duration_since(began))
    }

    /// Passes an answer on up to its end. Only whole events count as life, so that a trickle of
    /// bytes is none; and events that bring nothing of the answer count for a bounded time only.
    async fn relay(
        &self,
        mut incoming: Incoming,
        sent: Instant,
        passing: &mut Passing,
        out: &StreamSender,
    ) -> Result<(), ProviderFailure> {
        let (first_byte_ms, between_ms) = (self.settings.first_byte_ms, self.settings.between_ms);
        let empty_ms = first_byte_ms.max(between_ms.saturating_mul(EMPTY_FACTOR));
        let (mut heard, mut moved) = (sent, sent);
        loop {
            let came_bytes = passing.answer_bytes();
            let silent_ms = match (passing.is_finished(), passing.has_begun()) {
                (true, _) => between_ms.min(END_MS),
                (false, true) => between_ms,
                (false, false) => first_byte_ms,
            };
            let silent = heard + Duration::from_millis(silent_ms);
            let until = silent.min(moved + Duration::from_millis(empty_ms));
            let piece = match incoming.piece(until.into(), silent_ms).await {
                // The answer is whole; that the line stays open is the other side's matter.
                Err(EgressError::Stalled { .. }) if passing.is_finished() => return Ok(()),
                piece => piece?,
            };
            let was_finished = passing.is_finished();
            let events = match &piece {
                Some(piece) => passing.take(piece, sent.elapsed())?,
                None => passing.close(sent.elapsed())?,
            };
            if let Some(events) = events {
                let now = Instant::now();
                // What comes after the end must not put the end off.
                if !was_finished {
                    heard = now;
                }
                if passing.answer_bytes() > came_bytes {
                    moved = now;
                }
                if !events.is_empty() {
                    out.pass_on(events).await?;
                    fault::point("brokerd.mid-stream");
                }
            }
            if piece.is_none() || passing.is_done() {
                return Ok(());
            }
        }
    }

    /// What a call cost: by the provider's count, or all that was set aside where it gives none. A
    /// count by the bytes that came would leave out what a model thought and did not show.
    fn charge(&self, receipt: &Receipt, reserved: MicroUsd) -> Charge {
        let usage = receipt.usage();
        let usd = self.settings.price().cost_of(&usage);
        let most = reserved.micros().saturating_mul(MAX_COST_FACTOR);
        if usd.micros() > most || receipt.source != UsageSource::Reported {
            return Charge::whole(reserved);
        }
        Charge {
            usd,
            usage,
            source: receipt.source,
        }
    }
}
