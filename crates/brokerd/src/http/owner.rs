//! What only the owner may see: grants, and the audit log with its exact bytes.

use crate::broker::Broker;
use axum::Json;
use axum::extract::{Path, State};
use bxcore::audit::Checkpoint;
use bxcore::grant::Grant;
use bxcore::tool::ToolSpec;
use bxcore::wire::brokerd::{AuditStatus, Endorse, Endorsed};
use bxkit::keys::Caller;
use bxkit::rpc::{ApiError, Callers};
use serde_json::Value;

const OWNER: &[Caller] = &[Caller::Owner];

/// `GET /v1/grants`
pub(super) async fn grants(
    State(broker): State<Broker>,
    caller: Caller,
) -> Result<Json<Vec<Grant>>, ApiError> {
    caller.must_be(OWNER)?;
    Ok(Json(broker.grants().to_vec()))
}

/// `POST /v1/endorse`
pub(super) async fn endorse(
    State(broker): State<Broker>,
    caller: Caller,
    Json(request): Json<Endorse>,
) -> Result<Json<Endorsed>, ApiError> {
    caller.must_be(OWNER)?;
    Ok(Json(broker.endorse(request).await?))
}

/// `GET /v1/tools`
pub(super) async fn tools(
    State(broker): State<Broker>,
    caller: Caller,
) -> Result<Json<Vec<ToolSpec>>, ApiError> {
    caller.must_be(OWNER)?;
    Ok(Json(broker.every_tool().await?))
}

/// `GET /v1/audit`
pub(super) async fn audit_status(
    State(broker): State<Broker>,
    caller: Caller,
) -> Result<Json<AuditStatus>, ApiError> {
    caller.must_be(OWNER)?;
    Ok(Json(broker.audit_status().await?))
}

/// `POST /v1/audit/checkpoint`
pub(super) async fn checkpoint(
    State(broker): State<Broker>,
    caller: Caller,
) -> Result<Json<Checkpoint>, ApiError> {
    caller.must_be(OWNER)?;
    Ok(Json(broker.checkpoint().await?))
}

/// `GET /v1/audit/{seq}`
pub(super) async fn audit_record(
    State(broker): State<Broker>,
    caller: Caller,
    Path(seq): Path<u64>,
) -> Result<Json<Value>, ApiError> {
    caller.must_be(OWNER)?;
    Ok(Json(broker.show(seq).await?))
}
