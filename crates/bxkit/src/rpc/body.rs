//! The body of an answer, piece by piece.

use super::call_error::{Break, CallError};
use super::pool::Lease;
use axum::http::{HeaderMap, StatusCode};
use bytes::{Bytes, BytesMut};
use futures_util::Stream;
use hyper::body::{Body, Incoming};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// The body of an answer as it arrives.
///
/// Ends after the last piece; an answer that is cut off gives an error instead. Dropping it before
/// its end closes the connection, which stops the work on the other side.
#[derive(Debug)]
pub struct BodyStream {
    incoming: Incoming,
    /// Present until the end or an error.
    lease: Option<Lease>,
    path: String,
}

/// An answer whose body is still arriving.
#[derive(Debug)]
pub struct RawResponse {
    /// Its status, any.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: BodyStream,
}

impl BodyStream {
    pub(super) fn new(incoming: Incoming, lease: Lease, path: &str) -> Self {
        Self {
            incoming,
            lease: Some(lease),
            path: path.to_owned(),
        }
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// The next piece; none at the end.
    pub async fn chunk(&mut self) -> Option<Result<Bytes, CallError>> {
        std::future::poll_fn(|cx| self.poll_chunk(cx)).await
    }

    /// The whole body, up to a limit.
    pub async fn collect(mut self, max_bytes: usize) -> Result<Bytes, CallError> {
        let Some(first) = self.chunk().await.transpose()? else {
            return Ok(Bytes::new());
        };
        let mut whole = match self.chunk().await.transpose()? {
            // Nearly every answer comes in one piece, which needn't be copied.
            None if first.len() <= max_bytes => return Ok(first),
            second => {
                let mut whole = BytesMut::from(first);
                whole.extend_from_slice(&second.unwrap_or_default());
                whole
            }
        };
        while whole.len() <= max_bytes {
            match self.chunk().await.transpose()? {
                Some(piece) => whole.extend_from_slice(&piece),
                None => return Ok(whole.freeze()),
            }
        }
        Err(CallError::broken(&self.path, Break::TooLarge { max_bytes }))
    }

    pub(super) fn poll_chunk(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, CallError>>> {
        loop {
            if self.lease.is_none() {
                return Poll::Ready(None);
            }
            match ready!(Pin::new(&mut self.incoming).poll_frame(cx)) {
                // Trailers carry nothing here.
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) if data.is_empty() => {}
                    Ok(data) => return Poll::Ready(Some(Ok(data))),
                    Err(_) => {}
                },
                Some(Err(error)) => {
                    self.lease = None;
                    return Poll::Ready(Some(Err(CallError::cut_off(&self.path, &error))));
                }
                None => {
                    if let Some(lease) = self.lease.take() {
                        lease.give_back();
                    }
                    return Poll::Ready(None);
                }
            }
        }
    }
}

impl Stream for BodyStream {
    type Item = Result<Bytes, CallError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll_chunk(cx)
    }
}
