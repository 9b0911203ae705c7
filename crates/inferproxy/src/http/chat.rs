//! `/v1/chat` and `/v1/stop`: for loopd alone, which is the only one to start inference.

use crate::chat::{ChatHead, Engine};
use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;
use bxcore::role::Role;
use bxcore::wire::inferproxy::{StopReply, StopRequest};
use bxkit::keys::Caller;
use bxkit::rpc::{ApiError, Callers};
use bytes::Bytes;
use futures_util::stream::poll_fn;
use std::convert::Infallible;

const LOOPD: &[Caller] = &[Caller::Role(Role::Loopd)];

pub(super) async fn begin(
    caller: Caller,
    State(engine): State<Engine>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, ApiError> {
    caller.must_be(LOOPD)?;
    let head = ChatHead::read(&headers)?;
    let mut answer = engine.begin(head, body).await?;
    // The stream is dropped when the caller goes away, and the receiver with it.
    let pieces = poll_fn(move |cx| {
        answer
            .poll_recv(cx)
            .map(|piece| piece.map(Ok::<_, Infallible>))
    });
    let mut response = Response::new(Body::from_stream(pieces));
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/event-stream"),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

pub(super) async fn stop(
    caller: Caller,
    State(engine): State<Engine>,
    Json(request): Json<StopRequest>,
) -> Result<Json<StopReply>, ApiError> {
    caller.must_be(LOOPD)?;
    Ok(Json(engine.stop(request).await))
}
