//! `/v1/mcp`: the owner's word on tools of MCP servers.

use crate::broker::Broker;
use axum::Json;
use axum::extract::{Path, State};
use bxcore::id::McpServerName;
use bxcore::wire::mcp::{McpChanged, McpServer, McpTrust, McpUntrust};
use bxkit::keys::Caller;
use bxkit::rpc::{ApiError, Callers};

const OWNER: &[Caller] = &[Caller::Owner];

/// `GET /v1/mcp`
pub(super) async fn list(
    State(broker): State<Broker>,
    caller: Caller,
) -> Result<Json<Vec<McpServer>>, ApiError> {
    caller.must_be(OWNER)?;
    Ok(Json(broker.mcp_servers().await?))
}

/// `POST /v1/mcp/{server}/look`
pub(super) async fn look(
    State(broker): State<Broker>,
    caller: Caller,
    Path(server): Path<McpServerName>,
) -> Result<Json<McpServer>, ApiError> {
    caller.must_be(OWNER)?;
    Ok(Json(broker.mcp_look(server).await?))
}

/// `POST /v1/mcp/{server}/trust`
pub(super) async fn trust(
    State(broker): State<Broker>,
    caller: Caller,
    Path(server): Path<McpServerName>,
    Json(request): Json<McpTrust>,
) -> Result<Json<McpChanged>, ApiError> {
    caller.must_be(OWNER)?;
    Ok(Json(broker.mcp_trust(server, request).await?))
}

/// `POST /v1/mcp/{server}/untrust`
pub(super) async fn untrust(
    State(broker): State<Broker>,
    caller: Caller,
    Path(server): Path<McpServerName>,
    Json(request): Json<McpUntrust>,
) -> Result<Json<McpChanged>, ApiError> {
    caller.must_be(OWNER)?;
    Ok(Json(broker.mcp_untrust(server, request).await?))
}
