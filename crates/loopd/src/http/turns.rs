//! Turns, and compactions by hand: begun by a POST, followed as server-sent events.

use crate::drive::{Engine, EventSink};
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::post;
use axum::{Json, Router};
use bxcore::id::SessionId;
use bxcore::wire::loopd::{TurnEvent, TurnRequest};
use bxkit::rpc::event_stream;
use bxkit::sse::Event;
use futures_util::StreamExt;
use std::sync::Arc;
use tokio::sync::mpsc::Receiver;
use tokio_stream::wrappers::ReceiverStream;

/// The name of every event of a turn's stream; the data says which it is.
const EVENT_TURN: &str = "turn";

pub(super) fn routes() -> Router<Arc<Engine>> {
    Router::new()
        .route("/v1/turns", post(begin))
        .route("/v1/sessions/{id}/compact", post(compact))
}

async fn begin(State(engine): State<Arc<Engine>>, Json(request): Json<TurnRequest>) -> Response {
    let (sink, events) = EventSink::channel();
    engine.spawn_turn(request, sink);
    told(events)
}

async fn compact(State(engine): State<Arc<Engine>>, Path(id): Path<SessionId>) -> Response {
    let (sink, events) = EventSink::channel();
    engine.spawn_compaction(id, sink);
    told(events)
}

fn told(events: Receiver<TurnEvent>) -> Response {
    event_stream(ReceiverStream::new(events).map(|event| Event {
        event: EVENT_TURN.to_owned(),
        // Events are made of strings and numbers, so they can always be written as JSON.
        data: serde_json::to_string(&event).unwrap_or_default(),
        id: None,
    }))
}
