//! Who holds which slot, and who waits.

use crate::drive::Engine;
use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use bxcore::wire::loopd::GateRow;
use std::sync::Arc;

pub(super) fn routes() -> Router<Arc<Engine>> {
    Router::new().route("/v1/slots", get(list))
}

async fn list(State(engine): State<Arc<Engine>>) -> Json<Vec<GateRow>> {
    Json(engine.gate().rows())
}
