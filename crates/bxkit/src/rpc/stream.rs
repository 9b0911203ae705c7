//! Answers of server-sent events: written on one side, decoded on the other.

use super::body::BodyStream;
use super::call_error::{Break, CallError};
use crate::sse::{self, Decoder, Event};
use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use serde::Serialize;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

/// How often a silent stream says that it is still there.
pub const KEEP_ALIVE_SECS: u64 = 15;

/// How many events wait for a slow reader before their writer waits too.
pub const MAX_STREAM_QUEUE: usize = 64;

/// The events of an answer, as they arrive.
///
/// Ends when the server ends it; a cut connection gives [`CallError::Broken`]. Dropping it closes
/// the connection.
#[derive(Debug)]
pub struct EventStream {
    body: BodyStream,
    decoder: Decoder,
    ready: VecDeque<Event>,
    failed: bool,
}

impl EventStream {
    pub(super) fn new(body: BodyStream) -> Self {
        Self {
            body,
            decoder: Decoder::new(),
            ready: VecDeque::new(),
            failed: false,
        }
    }

    /// The next event; none at the end. Nothing is lost if this future is dropped.
    pub async fn next(&mut self) -> Option<Result<Event, CallError>> {
        std::future::poll_fn(|cx| self.poll_event(cx)).await
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Event, CallError>>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(event)));
            }
            if self.failed {
                return Poll::Ready(None);
            }
            match ready!(self.body.poll_chunk(cx)) {
                None => return Poll::Ready(None),
                Some(Err(error)) => {
                    self.failed = true;
                    return Poll::Ready(Some(Err(error)));
                }
                Some(Ok(piece)) => match self.decoder.feed(&piece) {
                    Ok(events) => self.ready.extend(events),
                    Err(error) => {
                        self.failed = true;
                        let why = Break::TooLarge {
                            max_bytes: error.max_bytes,
                        };
                        return Poll::Ready(Some(Err(CallError::broken(self.body.path(), why))));
                    }
                },
            }
        }
    }
}

impl Stream for EventStream {
    type Item = Result<Event, CallError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll_event(cx)
    }
}

/// An answer that carries the events of a stream; `id` of an event is not sent.
///
/// The stream is dropped when the reader goes away.
pub fn event_stream(events: impl Stream<Item = Event> + Send + 'static) -> Response {
    respond(events.map(|event| Bytes::from(sse::encode(&event.event, &event.data))))
}

/// The writing end of an answer of events.
#[derive(Debug, Clone)]
pub struct StreamSender {
    queue: mpsc::Sender<Bytes>,
}

/// The reader of a stream is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the reader of the stream is gone")]
pub struct ReaderGone;

/// An answer of events and the end to write them to; the answer ends when all senders are dropped.
pub fn event_channel() -> (StreamSender, Response) {
    let (queue, mut events) = mpsc::channel(MAX_STREAM_QUEUE);
    let response = respond(futures_util::stream::poll_fn(move |cx| {
        events.poll_recv(cx)
    }));
    (StreamSender { queue }, response)
}

impl StreamSender {
    /// Sends an event with JSON data; waits while the reader is slow.
    ///
    /// # Errors
    /// The reader is gone, or the data can't be written as JSON.
    pub async fn send<T: Serialize + ?Sized>(
        &self,
        event: &str,
        data: &T,
    ) -> Result<(), ReaderGone> {
        let data = serde_json::to_string(data).map_err(|_| ReaderGone)?;
        self.send_text(event, &data).await
    }

    /// Sends an event with text as its data; waits while the reader is slow.
    pub async fn send_text(&self, event: &str, data: &str) -> Result<(), ReaderGone> {
        let text = Bytes::from(sse::encode(event, data));
        self.queue.send(text).await.map_err(|_| ReaderGone)
    }

    /// Passes on whole events as they are; waits while the reader is slow.
    ///
    /// # Errors
    /// The reader is gone.
    pub async fn pass_on(&self, events: Bytes) -> Result<(), ReaderGone> {
        self.queue.send(events).await.map_err(|_| ReaderGone)
    }

    /// Waits until the reader is gone.
    pub async fn reader_gone(&self) {
        self.queue.closed().await;
    }
}

fn respond(pieces: impl Stream<Item = Bytes> + Send + 'static) -> Response {
    let body = Body::from_stream(kept_alive(pieces).map(Ok::<_, Infallible>));
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/event-stream"),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The pieces, with a comment wherever there is silence for [`KEEP_ALIVE_SECS`].
fn kept_alive(
    pieces: impl Stream<Item = Bytes> + Send + 'static,
) -> impl Stream<Item = Bytes> + Send {
    futures_util::stream::unfold(Box::pin(pieces), |mut pieces| async move {
        let silence = Instant::now() + Duration::from_secs(KEEP_ALIVE_SECS);
        tokio::select! {
            biased;
            piece = pieces.next() => piece.map(|piece| (piece, pieces)),
            () = sleep_until(silence) => Some((Bytes::from_static(sse::KEEP_ALIVE.as_bytes()), pieces)),
        }
    })
}
