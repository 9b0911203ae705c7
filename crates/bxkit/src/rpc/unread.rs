//! A request body that is read to its end even if its handler doesn't.
//!
//! A Unix socket that is closed with unread bytes makes the other end lose what it has not read
//! yet: the refusal of a request that is too large would never arrive.

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// How much of a body is read only to be thrown away.
const MAX_DRAINED_BYTES: usize = 32 * 1024 * 1024;

/// How long that may take.
const DRAIN_TIMEOUT_SECS: u64 = 5;

/// The body of a request.
#[derive(Debug)]
pub(super) struct Unread(Option<Incoming>);

impl Unread {
    pub(super) fn new(incoming: Incoming) -> Self {
        Self(Some(incoming))
    }
}

impl Body for Unread {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match &mut self.get_mut().0 {
            Some(incoming) => Pin::new(incoming).poll_frame(cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.0
            .as_ref()
            .map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        let Some(incoming) = self.0.take().filter(|incoming| !incoming.is_end_stream()) else {
            return;
        };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let limit = Duration::from_secs(DRAIN_TIMEOUT_SECS);
            runtime.spawn(tokio::time::timeout(limit, drain(incoming)));
        }
    }
}

async fn drain(mut incoming: Incoming) {
    let mut drained = 0;
    while drained <= MAX_DRAINED_BYTES {
        match std::future::poll_fn(|cx| Pin::new(&mut incoming).poll_frame(cx)).await {
            Some(Ok(frame)) => drained += frame.data_ref().map_or(0, Bytes::len),
            Some(Err(_)) | None => return,
        }
    }
}
