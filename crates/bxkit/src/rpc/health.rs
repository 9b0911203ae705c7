//! Whether a role is ready to serve.

use axum::{Json, Router, routing};
use bxcore::role::Role;
use serde::{Deserialize, Serialize};

/// What `GET /v1/health` answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// Who answers: a role's name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its process id.
    pub pid: u32,
    /// What confines it, for a person; none before it has given anything up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confined: Option<String>,
}

/// The route `GET /v1/health`, for a role's router to merge.
///
/// A socket is bound before its role serves: a request waits in the backlog until then, so that an
/// answer means ready.
pub fn health(role: Role) -> Router {
    let health = Health {
        name: role.name().to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        confined: crate::confine::in_force().map(ToString::to_string),
    };
    Router::new().route("/v1/health", routing::get(async move || Json(health)))
}
