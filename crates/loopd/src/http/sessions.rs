//! Sessions: list, look, read, stop, delete.

use crate::drive::Engine;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use bxcore::code::Code;
use bxcore::id::SessionId;
use bxcore::wire::loopd::{CacheRow, SessionRow, StopReport};
use bxkit::rpc::ApiError;
use bytes::Bytes;
use futures_util::Stream;
use std::io::{self, Read};
use std::sync::Arc;

/// How much of a transcript is sent at once.
const PIECE_BYTES: usize = 64 * 1024;

type Shared = State<Arc<Engine>>;

pub(super) fn routes() -> Router<Arc<Engine>> {
    Router::new()
        .route("/v1/sessions", get(list))
        .route("/v1/sessions/{id}", get(show).delete(delete))
        .route("/v1/sessions/{id}/log", get(log))
        .route("/v1/sessions/{id}/cache", get(cache))
        .route("/v1/sessions/{id}/stop", post(stop))
}

async fn list(State(engine): Shared) -> Result<Json<Vec<SessionRow>>, ApiError> {
    Ok(Json(engine.sessions().await?))
}

async fn show(
    State(engine): Shared,
    Path(id): Path<SessionId>,
) -> Result<Json<SessionRow>, ApiError> {
    Ok(Json(engine.session(&id).await?))
}

async fn delete(State(engine): Shared, Path(id): Path<SessionId>) -> Result<(), ApiError> {
    Ok(engine.delete(&id).await?)
}

async fn log(State(engine): Shared, Path(id): Path<SessionId>) -> Result<Response, ApiError> {
    let log = engine.transcript(&id).await?;
    let bytes = log.total_bytes();
    let reader = log.open().map_err(|error| {
        ApiError::new(
            Code::TranscriptBroken,
            format!("The transcript can't be opened: {error}"),
        )
    })?;
    let headers = [
        (header::CONTENT_TYPE, "application/jsonl".to_owned()),
        (header::CONTENT_LENGTH, bytes.to_string()),
    ];
    Ok((headers, Body::from_stream(pieces(reader))).into_response())
}

/// A file as a stream of pieces, read where blocking does no harm.
fn pieces(
    reader: impl Read + Send + 'static,
) -> impl Stream<Item = Result<Bytes, io::Error>> + Send {
    futures_util::stream::try_unfold(reader, |mut reader| async {
        let read = tokio::task::spawn_blocking(move || {
            let mut piece = vec![0; PIECE_BYTES];
            let n = reader.read(&mut piece)?;
            piece.truncate(n);
            Ok::<_, io::Error>((piece, reader))
        });
        let (piece, reader) = read.await.map_err(io::Error::other)??;
        Ok((!piece.is_empty()).then(|| (Bytes::from(piece), reader)))
    })
}

async fn cache(
    State(engine): Shared,
    Path(id): Path<SessionId>,
) -> Result<Json<Vec<CacheRow>>, ApiError> {
    Ok(Json(engine.cache_table(&id).await?))
}

async fn stop(
    State(engine): Shared,
    Path(id): Path<SessionId>,
) -> Result<Json<StopReport>, ApiError> {
    Ok(Json(engine.stop(&id).await?))
}
