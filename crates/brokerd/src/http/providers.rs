//! `/v1/providers`: what there is of them, and model calls to them.

use crate::broker::Broker;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::Response;
use bxcore::code::Code;
use bxcore::id::BackendName;
use bxcore::role::Role;
use bxcore::wire::provider::{HEADER_PROVIDER_CALL, ProviderCall, ProviderInfo};
use bxkit::keys::Caller;
use bxkit::rpc::{ApiError, Callers, event_channel};
use bytes::Bytes;

/// `GET /v1/providers`
pub(super) async fn list(
    State(broker): State<Broker>,
    caller: Caller,
) -> Result<Json<Vec<ProviderInfo>>, ApiError> {
    caller.must_be(&[Caller::Role(Role::Loopd), Caller::Owner])?;
    Ok(Json(broker.providers().await?))
}

/// `POST /v1/providers/{name}/chat`
pub(super) async fn chat(
    State(broker): State<Broker>,
    caller: Caller,
    Path(name): Path<BackendName>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, ApiError> {
    // Not the owner either: a model call belongs to a session.
    caller.must_be(&[Caller::Role(Role::Loopd)])?;
    let call = call(&headers)?;
    let (out, response) = event_channel();
    broker.lead(name, call, body, out).await?;
    Ok(response)
}

fn call(headers: &HeaderMap) -> Result<ProviderCall, ApiError> {
    let text = headers.get(HEADER_PROVIDER_CALL);
    let text = text
        .map(axum::http::HeaderValue::as_bytes)
        .unwrap_or_default();
    serde_json::from_slice(text).map_err(|error| {
        let title = format!("The header `{HEADER_PROVIDER_CALL}` does not say whose call it is");
        bxcore::problem::Problem::new(Code::BadRequest, title)
            .detail(error.to_string())
            .into()
    })
}
