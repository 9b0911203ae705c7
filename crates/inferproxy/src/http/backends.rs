//! `/v1/backends`: what there is, and the probe of one.

use crate::chat::Engine;
use crate::probe::probe;
use axum::Json;
use axum::extract::{Path, State};
use bxcore::code::Code;
use bxcore::id::BackendName;
use bxcore::problem::Problem;
use bxcore::wire::inferproxy::{BackendInfo, ProbeReport};
use bxkit::rpc::ApiError;

pub(super) async fn list(State(engine): State<Engine>) -> Json<Vec<BackendInfo>> {
    Json(engine.registry().list().await)
}

pub(super) async fn probe_one(
    State(engine): State<Engine>,
    Path(name): Path<String>,
) -> Result<Json<ProbeReport>, ApiError> {
    let name = BackendName::new(name).map_err(|error| {
        Problem::new(Code::BackendUnknown, "There is no such backend").detail(error.to_string())
    })?;
    Ok(Json(probe(&engine, &name).await?))
}
