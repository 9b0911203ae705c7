//! All routes in one place.

use super::{approvals, calls, mcp, owner, providers, sessions};
use crate::broker::Broker;
use axum::Router;
use axum::routing::{get, post};

/// The routes, over one broker.
pub fn router(broker: Broker) -> Router {
    Router::new()
        .route(
            "/v1/sessions/{id}",
            get(sessions::show)
                .put(sessions::register)
                .delete(sessions::forget),
        )
        .route("/v1/sessions/{id}/tools", get(sessions::tools))
        .route("/v1/calls", post(calls::make))
        .route("/v1/calls/withdraw", post(approvals::withdraw))
        .route("/v1/approvals", get(approvals::list))
        .route(
            "/v1/approvals/{id}",
            get(approvals::show).post(approvals::answer),
        )
        .route("/v1/explain", post(calls::explain))
        .route("/v1/providers", get(providers::list))
        .route("/v1/providers/{name}/chat", post(providers::chat))
        .route("/v1/mcp", get(mcp::list))
        .route("/v1/mcp/{server}/look", post(mcp::look))
        .route("/v1/mcp/{server}/trust", post(mcp::trust))
        .route("/v1/mcp/{server}/untrust", post(mcp::untrust))
        .route("/v1/endorse", post(owner::endorse))
        .route("/v1/grants", get(owner::grants))
        .route("/v1/tools", get(owner::tools))
        .route("/v1/audit", get(owner::audit_status))
        .route("/v1/audit/checkpoint", post(owner::checkpoint))
        .route("/v1/audit/{seq}", get(owner::audit_record))
        .with_state(broker)
}
