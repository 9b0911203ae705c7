//! Our own events in the stream of an answer.

use bxcore::problem::Problem;
use bxcore::usage::Receipt;
use bxcore::wire::inferproxy::{EVENT_PROBLEM, EVENT_RECEIPT, EVENT_WAITING, Waiting};
use bytes::Bytes;
use serde::Serialize;
use tokio::sync::mpsc;

/// How many pieces of an answer wait for a slow caller before the server waits too.
pub const MAX_QUEUED_PIECES: usize = 64;

/// The end of an answer's stream that is written to.
pub type AnswerSender = mpsc::Sender<Bytes>;
/// The end of an answer's stream that the caller reads.
pub type AnswerReceiver = mpsc::Receiver<Bytes>;

/// The caller is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the caller is gone")]
pub struct CallerGone;

/// A stream for one answer.
pub fn answer_channel() -> (AnswerSender, AnswerReceiver) {
    mpsc::channel(MAX_QUEUED_PIECES)
}

pub(super) async fn pass_on(out: &AnswerSender, piece: Bytes) -> Result<(), CallerGone> {
    out.send(piece).await.map_err(|_| CallerGone)
}

pub(super) async fn send_waiting(out: &AnswerSender, waiting: &Waiting) -> Result<(), CallerGone> {
    pass_on(out, event(EVENT_WAITING, waiting)).await
}

pub(super) async fn send_receipt(out: &AnswerSender, receipt: &Receipt) -> Result<(), CallerGone> {
    pass_on(out, event(EVENT_RECEIPT, receipt)).await
}

pub(super) async fn send_problem(out: &AnswerSender, problem: &Problem) -> Result<(), CallerGone> {
    pass_on(out, event(EVENT_PROBLEM, problem)).await
}

fn event<T: Serialize>(name: &str, data: &T) -> Bytes {
    // Structs of strings and numbers always serialise.
    let data = serde_json::to_string(data).unwrap_or_default();
    Bytes::from(bxkit::sse::encode(name, &data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_events_have_a_name() {
        let waiting = event(EVENT_WAITING, &Waiting::RetryAfter { ms: 5 });
        assert_eq!(
            waiting,
            "event: waiting\ndata: {\"for\":\"retry-after\",\"ms\":5}\n\n"
        );
    }
}
