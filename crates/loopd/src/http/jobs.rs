//! What begins by the clock: looked at, and begun now.

use crate::drive::Engine;
use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Json, Router};
use bxcore::id::SessionId;
use bxcore::wire::loopd::JobRow;
use bxkit::rpc::ApiError;
use std::sync::Arc;

type Shared = State<Arc<Engine>>;

pub(super) fn routes() -> Router<Arc<Engine>> {
    Router::new()
        .route("/v1/jobs", get(list))
        .route("/v1/jobs/{session}/run", post(run))
}

async fn list(State(engine): Shared) -> Json<Vec<JobRow>> {
    Json(engine.jobs())
}

async fn run(
    State(engine): Shared,
    Path(session): Path<SessionId>,
) -> Result<Json<JobRow>, ApiError> {
    Ok(Json(engine.run_job(&session).await?))
}
