//! `/v1/sessions/{id}`: labels, rules, tools.

use crate::broker::Broker;
use axum::Json;
use axum::extract::{Path, State};
use bxcore::code::Code;
use bxcore::id::SessionId;
use bxcore::problem::Problem;
use bxcore::role::Role;
use bxcore::tool::ToolSpec;
use bxcore::wire::brokerd::{Authority, Register};
use bxkit::keys::Caller;
use bxkit::rpc::{ApiError, Callers};

/// Only the engine makes sessions known.
const ENGINE: &[Caller] = &[Caller::Role(Role::Loopd)];
const ENGINE_OR_OWNER: &[Caller] = &[Caller::Role(Role::Loopd), Caller::Owner];

fn session_id(text: String) -> Result<SessionId, ApiError> {
    SessionId::new(text).map_err(|error| {
        Problem::new(Code::SessionIdInvalid, "The session id is not valid")
            .detail(error.to_string())
            .into()
    })
}

/// `PUT /v1/sessions/{id}`
pub(super) async fn register(
    State(broker): State<Broker>,
    caller: Caller,
    Path(id): Path<String>,
    Json(body): Json<Register>,
) -> Result<Json<Authority>, ApiError> {
    caller.must_be(ENGINE)?;
    Ok(Json(broker.register(session_id(id)?, body).await?))
}

/// `GET /v1/sessions/{id}`
pub(super) async fn show(
    State(broker): State<Broker>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Authority>, ApiError> {
    caller.must_be(ENGINE_OR_OWNER)?;
    Ok(Json(broker.authority(session_id(id)?).await?))
}

/// `DELETE /v1/sessions/{id}`
pub(super) async fn forget(
    State(broker): State<Broker>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<()>, ApiError> {
    caller.must_be(ENGINE)?;
    Ok(Json(broker.forget(session_id(id)?).await?))
}

/// `GET /v1/sessions/{id}/tools`
pub(super) async fn tools(
    State(broker): State<Broker>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Vec<ToolSpec>>, ApiError> {
    caller.must_be(ENGINE_OR_OWNER)?;
    Ok(Json(broker.tools(session_id(id)?).await?))
}
