//! The server's sockets: accepts connections, routes requests, closes what a script cuts.

use axum::Router;
use axum::body::{Body as HttpBody, Bytes};
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderMap, Response, StatusCode, header};
use axum::middleware::{self, Next};
use axum::routing::{get, post};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::net::{TcpListener, TcpStream};
use tower::ServiceExt;

use super::chat::{self, HangUp};
use super::info;
use super::shared::Shared;

const MAX_BODY_BYTES: usize = 256 * 1024 * 1024;

/// Accepts connections until its task is dropped.
pub(super) async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let router = router(shared);
    loop {
        if let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(connection(stream, router.clone()));
        }
    }
}

async fn connection(stream: TcpStream, router: Router) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let router = router.clone();
        async move {
            let Ok(response) = router.oneshot(request.map(HttpBody::new)).await;
            match response.extensions().get::<HangUp>() {
                Some(HangUp) => Err("the script hangs up"),
                None => Ok(response),
            }
        }
    });
    // How a connection ends is the client's affair, or the script's.
    let _ = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

fn router(shared: Arc<Shared>) -> Router {
    let chat = |State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes| async move {
        chat::chat(shared, headers, body).await
    };
    let models = |State(shared): State<Arc<Shared>>| async move { info::models(&shared) };
    Router::new()
        .route("/health", get(async || info::health()))
        .route("/v1/health", get(async || info::health()))
        .route("/v1/models", get(models))
        .route("/models", get(models))
        .route(
            "/props",
            get(async |State(shared): State<Arc<Shared>>| info::props(&shared)),
        )
        .route(
            "/slots",
            get(async |State(shared): State<Arc<Shared>>| info::slots(&shared)),
        )
        .route(
            "/metrics",
            get(async |State(shared): State<Arc<Shared>>| info::metrics(&shared)),
        )
        .route("/v1/chat/completions", post(chat))
        .route("/chat/completions", post(chat))
        .fallback(async || info::not_found())
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .layer(middleware::from_fn_with_state(Arc::clone(&shared), admit))
        .with_state(shared)
}

/// While the model loads nothing is answered; without the key only the health.
async fn admit(
    State(shared): State<Arc<Shared>>,
    request: Request,
    next: Next,
) -> Response<HttpBody> {
    if shared.loading.load(Ordering::SeqCst) {
        return info::error(
            StatusCode::SERVICE_UNAVAILABLE,
            "unavailable_error",
            "Loading model",
        );
    }
    let open = matches!(request.uri().path(), "/health" | "/v1/health");
    if let Some(key) = shared.config.api_key.as_ref().filter(|_| !open) {
        let given = request.headers().get(header::AUTHORIZATION);
        if given.is_none_or(|given| given.as_bytes() != format!("Bearer {key}").as_bytes()) {
            let message = "Invalid API Key";
            return info::error(StatusCode::UNAUTHORIZED, "authentication_error", message);
        }
    }
    next.run(request).await
}
