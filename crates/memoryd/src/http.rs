//! The routes of memoryd: who may ask what.

use crate::service::Service;
use axum::Router;
use axum::extract::{Path, State};
use axum::routing::{get, post};
use bxcore::code::Code;
use bxcore::id::MemoryFile;
use bxcore::label::Class;
use bxcore::problem::Problem;
use bxcore::role::Role;
use bxcore::wire::memoryd::{
    MemoryBaseline, MemoryChange, MemoryChanged, MemoryListing, MemoryNews, NewsRequest,
    RecallRequest, Recalled,
};
use bxkit::keys::Caller;
use bxkit::rpc::{ApiError, Callers, Json};

/// What has a label goes to whoever keeps the labels, and to the owner.
const BROKER_OR_OWNER: &[Caller] = &[Caller::Role(Role::Brokerd), Caller::Owner];
const ENGINE_OR_OWNER: &[Caller] = &[Caller::Role(Role::Loopd), Caller::Owner];

/// The routes, over one service.
pub fn router(service: Service) -> Router {
    Router::new()
        .route("/v1/memory", get(list).post(change))
        .route("/v1/memory/{file}", get(list_one))
        .route("/v1/baseline/{class}", get(baseline))
        .route("/v1/baseline/{class}/news", post(news))
        .route("/v1/recall", post(recall))
        .with_state(service)
}

/// `POST /v1/memory`
async fn change(
    State(service): State<Service>,
    caller: Caller,
    Json(asked): Json<MemoryChange>,
) -> Result<Json<MemoryChanged>, ApiError> {
    // Not loopd: the label that comes with a change must be the ledger's. The owner has an editor.
    caller.must_be(&[Caller::Role(Role::Brokerd)])?;
    Ok(Json(service.change(asked).await?))
}

/// `GET /v1/memory`
async fn list(
    State(service): State<Service>,
    caller: Caller,
) -> Result<Json<MemoryListing>, ApiError> {
    caller.must_be(BROKER_OR_OWNER)?;
    Ok(Json(service.list(None).await?))
}

/// `GET /v1/memory/{file}`
async fn list_one(
    State(service): State<Service>,
    caller: Caller,
    Path(file): Path<String>,
) -> Result<Json<MemoryListing>, ApiError> {
    caller.must_be(BROKER_OR_OWNER)?;
    let file =
        MemoryFile::parse(&file).map_err(|error| bad("This names no memory file", &error))?;
    Ok(Json(service.list(Some(file)).await?))
}

/// `GET /v1/baseline/{class}`
async fn baseline(
    State(service): State<Service>,
    caller: Caller,
    Path(class): Path<String>,
) -> Result<Json<MemoryBaseline>, ApiError> {
    caller.must_be(ENGINE_OR_OWNER)?;
    Ok(Json(service.baseline(named(&class)?).await?))
}

/// `POST /v1/baseline/{class}/news`
async fn news(
    State(service): State<Service>,
    caller: Caller,
    Path(class): Path<String>,
    Json(asked): Json<NewsRequest>,
) -> Result<Json<MemoryNews>, ApiError> {
    caller.must_be(ENGINE_OR_OWNER)?;
    Ok(Json(service.news(named(&class)?, asked).await?))
}

/// `POST /v1/recall`
async fn recall(
    State(service): State<Service>,
    caller: Caller,
    Json(request): Json<RecallRequest>,
) -> Result<Json<Recalled>, ApiError> {
    caller.must_be(BROKER_OR_OWNER)?;
    Ok(Json(service.recall(request).await?))
}

fn named(class: &str) -> Result<Class, Problem> {
    class
        .parse()
        .map_err(|error| bad("This names no class", &error))
}

fn bad(title: &str, error: &dyn std::error::Error) -> Problem {
    Problem::new(Code::BadRequest, title).detail(error.to_string())
}
