//! Looking at a server: one or two small requests. Judging what they show is in `assess`.

use super::assess::Look;
use super::facts::{Models, Props};
use super::problems::connect_problem;
use super::spec::Spec;
use super::upstream::{Reply, Upstream, UpstreamError};
use axum::http::StatusCode;
use bxcore::wire::inferproxy::BackendKind;
use std::time::Duration;

/// How long a server may take to say what it is.
pub const LOOK_TIMEOUT_MS: u64 = 2_000;

/// Looks at a server.
pub(super) async fn look(spec: &Spec, upstream: &Upstream) -> Look {
    match spec.kind {
        Some(BackendKind::LlamaServer) => look_for_llama(spec, upstream).await,
        Some(BackendKind::Openai) => look_for_openai(spec, upstream).await,
        None => look_for_any(spec, upstream).await,
    }
}

/// A port on which anything may listen: what is no model server counts as silent.
async fn look_for_any(spec: &Spec, upstream: &Upstream) -> Look {
    let first = look_for_llama(spec, upstream).await;
    if !matches!(first, Look::Strange(..)) {
        return first;
    }
    match look_for_openai(spec, upstream).await {
        Look::Strange(..) => silent(spec, &UpstreamError::NotSent),
        found => found,
    }
}

async fn look_for_llama(spec: &Spec, upstream: &Upstream) -> Look {
    const KIND: BackendKind = BackendKind::LlamaServer;
    match ask(spec, upstream, "/props", KIND).await {
        Ok(reply) => match Props::parse(&reply.body) {
            Ok(props) => Look::Llama(Box::new(props)),
            Err(error) => Look::Strange(KIND, format!("/props: {error}")),
        },
        Err(look) => look,
    }
}

async fn look_for_openai(spec: &Spec, upstream: &Upstream) -> Look {
    const KIND: BackendKind = BackendKind::Openai;
    match ask(spec, upstream, "/v1/models", KIND).await {
        Ok(reply) => match Models::parse(&reply.body) {
            Ok(models) => Look::Openai(models),
            Err(error) => Look::Strange(KIND, format!("/v1/models: {error}")),
        },
        Err(look) => look,
    }
}

/// A document with status 200, or what its absence says.
async fn ask(
    spec: &Spec,
    upstream: &Upstream,
    path: &str,
    kind: BackendKind,
) -> Result<Reply, Look> {
    let timeout = Duration::from_millis(LOOK_TIMEOUT_MS);
    let reply = upstream
        .get(path, timeout)
        .await
        .map_err(|error| silent(spec, &error))?;
    match reply.status {
        StatusCode::OK => Ok(reply),
        StatusCode::SERVICE_UNAVAILABLE => Err(Look::Loading(kind)),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(Look::NeedsKey(kind)),
        status => Err(Look::Strange(
            kind,
            format!("{path} gives status {}", status.as_u16()),
        )),
    }
}

fn silent(spec: &Spec, error: &UpstreamError) -> Look {
    Look::Silent(connect_problem(
        spec.name.as_str(),
        &spec.url.to_string(),
        error,
    ))
}
