//! Passes a server's answer on as it comes, and measures it on the way.

use super::events::{AnswerSender, CallerGone, pass_on};
use super::life::{LifeWatch, Pulse};
use crate::backend::{Answer, Backend, UpstreamError};
use crate::slots::SlotLook;
use axum::http::header;
use bxcore::chat::{Fault, Meter};
use bxcore::code::Code;
use bxcore::problem::Problem;
use bxkit::fault;
use bxkit::sse::Framer;
use bytes::Bytes;
use std::time::{Duration, Instant};

/// Why an answer was not passed on to its end.
#[derive(Debug)]
pub(super) enum RelayError {
    /// The caller is gone.
    Gone,
    /// The answer is none, or did not come to its end.
    Failed(Problem),
}

impl From<CallerGone> for RelayError {
    fn from(_: CallerGone) -> Self {
        Self::Gone
    }
}

impl From<Problem> for RelayError {
    fn from(problem: Problem) -> Self {
        Self::Failed(problem)
    }
}

/// Watches that a server is not silent for longer than allowed.
pub(super) struct Liveness<'a> {
    pub(super) backend: &'a Backend,
    pub(super) slot: Option<u32>,
    pub(super) allowed: Duration,
    pub(super) watch: LifeWatch,
}

impl Liveness<'_> {
    /// Waits for something of the server, for as long as the server is alive.
    pub(super) async fn guard<T>(
        &mut self,
        awaited: impl Future<Output = T>,
    ) -> Result<T, Problem> {
        tokio::pin!(awaited);
        let half = self.allowed / 2;
        loop {
            tokio::select! {
                biased;
                value = awaited.as_mut() => {
                    self.watch.heard();
                    return Ok(value);
                }
                () = tokio::time::sleep(half) => {}
            }
            let look = tokio::select! {
                biased;
                value = awaited.as_mut() => {
                    self.watch.heard();
                    return Ok(value);
                }
                look = self.look() => look,
            };
            if self.watch.half_passed(look) == Pulse::Stalled {
                return Err(self.stalled());
            }
        }
    }

    async fn look(&self) -> Option<SlotLook> {
        let slot = self.slot?;
        let page = self.backend.look_at_slots().await.ok()?;
        page.slot(slot)
    }

    fn stalled(&self) -> Problem {
        self.backend.distrust();
        let name = &self.backend.spec().name;
        let seconds = self.allowed.as_secs();
        Problem::new(
            Code::BackendStalled,
            format!("The model server `{name}` went silent"),
        )
        .detail(format!(
            "no byte for {seconds} s, and its slot has not moved"
        ))
        .hint("look at the server's log; `liveness_s` in inferproxy.toml allows longer silence")
    }
}

/// Passes an answer with status 200 on, event by event, up to its end.
pub(super) async fn relay(
    answer: &mut Answer,
    meter: &mut Meter,
    sent: Instant,
    life: &mut Liveness<'_>,
    out: &AnswerSender,
) -> Result<(), RelayError> {
    check_head(answer, life.backend)?;
    let mut framer = Framer::default();
    loop {
        let piece = life.guard(answer.piece()).await?;
        let events = match piece {
            Some(Ok(piece)) => framer
                .feed(&piece)
                .map_err(|error| garbled(life.backend, &error.to_string()))?,
            Some(Err(error)) => return Err(cut_off(life.backend, meter, Some(&error)).into()),
            None => {
                let rest = framer.rest();
                pass_events(closed(rest), meter, sent, life.backend, out).await?;
                return whole(meter, life.backend);
            }
        };
        let Some(events) = events else { continue };
        pass_events(events, meter, sent, life.backend, out).await?;
        if meter.is_done() {
            return whole(meter, life.backend);
        }
    }
}

/// The end of a stream, which must be the end of the answer too.
fn whole(meter: &Meter, backend: &Backend) -> Result<(), RelayError> {
    if meter.is_finished() {
        Ok(())
    } else {
        Err(cut_off(backend, meter, None).into())
    }
}

async fn pass_events(
    mut events: Bytes,
    meter: &mut Meter,
    sent: Instant,
    backend: &Backend,
    out: &AnswerSender,
) -> Result<(), RelayError> {
    if events.is_empty() {
        return Ok(());
    }
    let taken = meter
        .take(&events, sent.elapsed())
        .map_err(|fault| match fault {
            Fault::Garbled(why) => garbled(backend, &why),
            Fault::Reported(why) => reported(backend, &why),
        })?;
    events.truncate(taken);
    pass_on(out, events).await?;
    fault::point("inferproxy.mid-stream");
    Ok(())
}

/// The last event of a stream that ended without an empty line.
fn closed(rest: Bytes) -> Bytes {
    if rest.is_empty() {
        return rest;
    }
    Bytes::from([&rest[..], b"\n\n"].concat())
}

fn check_head(answer: &Answer, backend: &Backend) -> Result<(), Problem> {
    let header = |name| {
        answer
            .headers
            .get(name)
            .map(|value| String::from_utf8_lossy(value.as_bytes()))
    };
    let kind = header(header::CONTENT_TYPE).unwrap_or_default();
    let essence = kind.split(';').next().unwrap_or_default().trim();
    if !essence.eq_ignore_ascii_case("text/event-stream") {
        return Err(garbled(
            backend,
            &format!("its content type is `{essence}`, not an event stream"),
        ));
    }
    match header(header::CONTENT_ENCODING) {
        Some(coding) if !coding.eq_ignore_ascii_case("identity") => Err(garbled(
            backend,
            &format!("it is encoded as `{coding}`, which nobody asked for"),
        )),
        _ => Ok(()),
    }
}

fn garbled(backend: &Backend, why: &str) -> Problem {
    let name = &backend.spec().name;
    Problem::new(
        Code::BackendGarbled,
        format!("`{name}` sent something that is not a chat completion"),
    )
    .detail(why.to_owned())
    .hint("is it the right server? `boxmaker backend test` tries it")
}

fn reported(backend: &Backend, why: &str) -> Problem {
    let name = &backend.spec().name;
    Problem::new(
        Code::BackendError,
        format!("The model server `{name}` reported an error in its answer"),
    )
    .detail(why.to_owned())
    .hint("the server's own log tells more")
}

pub(super) fn cut_off(backend: &Backend, meter: &Meter, error: Option<&UpstreamError>) -> Problem {
    backend.distrust();
    let name = &backend.spec().name;
    let how = match error {
        Some(error) => bxkit::report::chain(error),
        None if meter.is_done() => "the server never said why it ended".to_owned(),
        None => "the stream ended in the middle".to_owned(),
    };
    Problem::new(
        Code::BackendCutOff,
        format!("The answer of `{name}` stopped before it was complete"),
    )
    .detail(how)
    .hint("the server may have been stopped or have crashed: look at its log")
}
