//! An answer that is read as it comes in.

use super::error::EgressError;
use super::exchange::shown;
use super::retry_after::RetryAfter;
use super::speak::Answer;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use bytes::Bytes;
use http_body_util::BodyExt;
use tokio::time::Instant;

/// An answer whose body is still to come. Dropping it closes the connection.
#[derive(Debug)]
pub struct Incoming {
    answer: Answer,
}

impl Incoming {
    pub(super) fn new(answer: Answer) -> Self {
        Self { answer }
    }

    /// Its status.
    pub fn status(&self) -> StatusCode {
        self.answer.response.status()
    }

    /// A header of the answer.
    pub fn header(&self, name: &HeaderName) -> Option<&HeaderValue> {
        self.answer.response.headers().get(name)
    }

    /// When to ask again, as the other side says.
    pub fn retry_after(&self) -> Option<RetryAfter> {
        RetryAfter::of(self.answer.response.headers())
    }

    /// Whether it is a stream of events, and not packed in any way.
    pub fn is_events(&self) -> bool {
        let headers = self.answer.response.headers();
        let kind = shown(headers, &header::CONTENT_TYPE).unwrap_or_default();
        let essence = kind.split(';').next().unwrap_or_default().trim();
        let coding = headers.get(header::CONTENT_ENCODING);
        essence.eq_ignore_ascii_case("text/event-stream")
            && coding.is_none_or(|coding| coding.as_bytes().eq_ignore_ascii_case(b"identity"))
    }

    /// The next piece of its body; none at the end.
    ///
    /// # Errors
    /// It broke off, or nothing came up to `until`: it was allowed to be silent for `silent_ms`.
    pub async fn piece(
        &mut self,
        until: Instant,
        silent_ms: u64,
    ) -> Result<Option<Bytes>, EgressError> {
        let body = self.answer.response.body_mut();
        let next = async {
            loop {
                match body.frame().await {
                    None => return Ok(None),
                    Some(Err(error)) => return Err(EgressError::CutOff(error)),
                    // Trailers carry nothing here.
                    Some(Ok(frame)) => match frame.into_data() {
                        Ok(data) if !data.is_empty() => return Ok(Some(data)),
                        _ => {}
                    },
                }
            }
        };
        match tokio::time::timeout_at(until, next).await {
            Ok(next) => next,
            Err(_) => Err(EgressError::Stalled { silent_ms }),
        }
    }
}
