//! Whether anything is under way: the supervisor asks, and leaves when nothing was for a while.

use crate::drive::Engine;
use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use bxcore::wire::loopd::Activity;
use std::sync::Arc;

pub(super) fn routes() -> Router<Arc<Engine>> {
    Router::new().route("/v1/activity", get(show))
}

async fn show(State(engine): State<Arc<Engine>>) -> Json<Activity> {
    Json(engine.activity())
}
