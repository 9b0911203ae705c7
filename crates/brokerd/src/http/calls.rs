//! `/v1/calls` and `/v1/explain`: decisions made and decisions explained.

use crate::broker::Broker;
use axum::Json;
use axum::extract::State;
use bxcore::role::Role;
use bxcore::wire::brokerd::{CallAnswer, CallRequest, ExplainRequest, Walk};
use bxkit::keys::Caller;
use bxkit::rpc::{ApiError, Callers};

/// `POST /v1/calls`
pub(super) async fn make(
    State(broker): State<Broker>,
    caller: Caller,
    Json(request): Json<CallRequest>,
) -> Result<Json<CallAnswer>, ApiError> {
    // Not the owner either: a call belongs to a session, and its result into a transcript.
    caller.must_be(&[Caller::Role(Role::Loopd)])?;
    Ok(Json(broker.call(request).await?))
}

/// `POST /v1/explain`
pub(super) async fn explain(
    State(broker): State<Broker>,
    caller: Caller,
    Json(request): Json<ExplainRequest>,
) -> Result<Json<Walk>, ApiError> {
    caller.must_be(&[Caller::Role(Role::Loopd), Caller::Owner])?;
    Ok(Json(broker.explain(request).await?))
}
