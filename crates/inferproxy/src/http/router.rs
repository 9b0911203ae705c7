//! Which route leads where.

use super::{backends, chat, slots};
use crate::chat::Engine;
use axum::Router;
use axum::routing::{get, post};

/// All routes but health and metrics, which the shell adds.
pub fn router(engine: Engine) -> Router {
    Router::new()
        .route("/v1/backends", get(backends::list))
        .route("/v1/backends/{name}/probe", post(backends::probe_one))
        .route("/v1/chat", post(chat::begin))
        .route("/v1/stop", post(chat::stop))
        .route("/v1/slots", get(slots::list))
        .with_state(engine)
}
