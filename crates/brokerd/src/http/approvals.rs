//! `/v1/approvals` and `/v1/calls/withdraw`: what waits for the owner, and the owner's answers.

use crate::broker::Broker;
use axum::Json;
use axum::extract::{Path, Query, State};
use bxcore::id::ApprovalId;
use bxcore::role::Role;
use bxcore::wire::approval::{Answer, Approval, Approvals, Withdraw};
use bxcore::wire::brokerd::CallResult;
use bxkit::keys::Caller;
use bxkit::rpc::{ApiError, Callers};
use serde::Deserialize;

const OWNER: &[Caller] = &[Caller::Owner];

/// What is asked of the list.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Known {
    /// The version that is known.
    after: Option<u64>,
}

/// `GET /v1/approvals`
pub(super) async fn list(
    State(broker): State<Broker>,
    caller: Caller,
    Query(known): Query<Known>,
) -> Result<Json<Approvals>, ApiError> {
    caller.must_be(OWNER)?;
    Ok(Json(broker.approvals(known.after).await?))
}

/// `GET /v1/approvals/{id}`
pub(super) async fn show(
    State(broker): State<Broker>,
    caller: Caller,
    Path(id): Path<ApprovalId>,
) -> Result<Json<Approval>, ApiError> {
    caller.must_be(OWNER)?;
    Ok(Json(broker.approval(id).await?))
}

/// `POST /v1/approvals/{id}`
pub(super) async fn answer(
    State(broker): State<Broker>,
    caller: Caller,
    Path(id): Path<ApprovalId>,
    Json(answer): Json<Answer>,
) -> Result<Json<Approval>, ApiError> {
    // Never loopd, which would approve what it asks for itself.
    caller.must_be(OWNER)?;
    Ok(Json(broker.answer(id, answer).await?))
}

/// `POST /v1/calls/withdraw`
pub(super) async fn withdraw(
    State(broker): State<Broker>,
    caller: Caller,
    Json(withdraw): Json<Withdraw>,
) -> Result<Json<Option<CallResult>>, ApiError> {
    caller.must_be(&[Caller::Role(Role::Loopd)])?;
    Ok(Json(broker.withdraw(withdraw).await?))
}
