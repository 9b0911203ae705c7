//! A consistent copy of everything that loopd keeps.

use crate::drive::Engine;
use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use bxcore::wire::loopd::{BackupReport, BackupRequest};
use bxkit::rpc::ApiError;
use std::sync::Arc;

pub(super) fn routes() -> Router<Arc<Engine>> {
    Router::new().route("/v1/backup", post(make))
}

async fn make(
    State(engine): State<Arc<Engine>>,
    Json(request): Json<BackupRequest>,
) -> Result<Json<BackupReport>, ApiError> {
    Ok(Json(engine.backup(&request.name).await?))
}
