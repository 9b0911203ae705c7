//! The answer of a probe's call, put together from its stream.

use crate::chat::AnswerReceiver;
use bxcore::chat::{AnswerBuilder, Chunk, ModelAnswer};
use bxcore::code::Code;
use bxcore::problem::Problem;
use bxcore::usage::Receipt;
use bxcore::wire::inferproxy::{EVENT_PROBLEM, EVENT_RECEIPT, EVENT_WAITING};
use bxkit::sse::{Decoder, Event};

/// Reads a stream to its end.
///
/// # Errors
/// The problem that the stream ended with, or that it ended with nothing.
pub(super) async fn collect(mut stream: AnswerReceiver) -> Result<(ModelAnswer, Receipt), Problem> {
    let mut decoder = Decoder::new();
    let mut builder = AnswerBuilder::default();
    // Bounded by what the relay passes on of one answer.
    while let Some(piece) = stream.recv().await {
        for event in decoder.feed(&piece).map_err(|error| broken(&error))? {
            match event.event.as_str() {
                EVENT_RECEIPT => {
                    let receipt =
                        serde_json::from_str(&event.data).map_err(|error| broken(&error))?;
                    return Ok((builder.finish().map_err(|error| broken(&error))?, receipt));
                }
                EVENT_PROBLEM => {
                    return Err(
                        serde_json::from_str(&event.data).unwrap_or_else(|error| broken(&error))
                    );
                }
                EVENT_WAITING => {}
                _ => take(&mut builder, &event)?,
            }
        }
    }
    Err(Problem::new(
        Code::Internal,
        "A probe's call ended without a result",
    ))
}

fn take(builder: &mut AnswerBuilder, event: &Event) -> Result<(), Problem> {
    if event.data == "[DONE]" {
        return Ok(());
    }
    let chunk: Chunk = serde_json::from_str(&event.data).map_err(|error| broken(&error))?;
    match chunk.choices.into_iter().next() {
        Some(choice) => builder.push(choice).map_err(|error| broken(&error)),
        None => Ok(()),
    }
}

fn broken(error: &(dyn std::error::Error + 'static)) -> Problem {
    Problem::new(
        Code::BackendGarbled,
        "The answer to a probe can't be understood",
    )
    .detail(bxkit::report::chain(error))
}
