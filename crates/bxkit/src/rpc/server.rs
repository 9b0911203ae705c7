//! Serving a role's routes on its socket.

use super::answer::{broken, explained, unknown_route};
use super::auth::ServerAuth;
use super::listener::SocketListener;
use super::unread::Unread;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::Request;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use std::any::Any;
use std::convert::Infallible;
use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service;
use tracing::Instrument;

/// The largest request body, where a route sets nothing else with [`DefaultBodyLimit`].
pub const MAX_BODY_BYTES: usize = 8 * 1024 * 1024;

/// How many connections one socket serves at once; more wait in the backlog.
pub const MAX_CONNECTIONS: usize = 2048;

/// How long requests under way may take to end after a shutdown began.
pub const SHUTDOWN_WAIT_SECS: u64 = 5;

/// How long accepting rests when the system has no descriptors left.
const ACCEPT_PAUSE_MS: u64 = 50;

/// Serves `router` until `shutdown`, then lets requests under way end, for a bounded time.
///
/// Only processes of our own user are heard, and of these only those that present a token of
/// `auth`; a handler finds its caller as a [`Caller`](crate::keys::Caller) argument. Every failure
/// is answered with a problem body, unknown routes and panics of a handler included; the router's
/// own fallback is replaced. A handler is dropped when its client goes away.
///
/// # Errors
/// The listener can't be used with the current runtime.
pub async fn serve(
    listener: SocketListener,
    router: Router,
    auth: ServerAuth,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let (listener, _file) = listener.into_tokio()?;
    let router = router
        .fallback(unknown_route)
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES));
    let shared = Arc::new(Shared {
        router,
        auth,
        stop: CancellationToken::new(),
    });
    // Dropping this future must end its connections too.
    let _cut_off = shared.stop.clone().drop_guard();
    let connections = TaskTracker::new();
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let accepting = accept_all(&listener, &shared, &connections, &permits, &shutdown);
    tokio::select! {
        () = shutdown.cancelled() => {}
        () = accepting => {}
    }
    connections.close();
    let wait = Duration::from_secs(SHUTDOWN_WAIT_SECS);
    if tokio::time::timeout(wait, connections.wait())
        .await
        .is_err()
    {
        tracing::warn!(
            open = connections.len(),
            "requests were still under way; they are cut off"
        );
        shared.stop.cancel();
        connections.wait().await;
    }
    Ok(())
}

#[derive(Debug)]
struct Shared {
    router: Router,
    auth: ServerAuth,
    /// Cuts off what the graceful end did not end.
    stop: CancellationToken,
}

async fn accept_all(
    listener: &UnixListener,
    shared: &Arc<Shared>,
    connections: &TaskTracker,
    permits: &Arc<Semaphore>,
    shutdown: &CancellationToken,
) {
    loop {
        // Closed never: the semaphore lives as long as this loop.
        let Ok(permit) = Arc::clone(permits).acquire_owned().await else {
            return;
        };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(ACCEPT_PAUSE_MS)).await;
                continue;
            }
        };
        if !is_own_user(&stream) {
            continue;
        }
        let (shared, shutdown) = (Arc::clone(shared), shutdown.clone());
        connections.spawn(async move {
            serve_connection(stream, &shared, &shutdown).await;
            drop(permit);
        });
    }
}

/// Whether the process at the other end runs as the same user.
///
/// The socket's mode says the same; a folder with wrong rights must not be enough to get in.
fn is_own_user(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid().as_raw();
    match stream.peer_cred() {
        Ok(peer) if peer.uid() == own => true,
        Ok(peer) => {
            tracing::warn!(uid = peer.uid(), "a connection of another user was closed");
            false
        }
        Err(error) => {
            tracing::warn!(%error, "a connection without credentials was closed");
            false
        }
    }
}

async fn serve_connection(stream: UnixStream, shared: &Arc<Shared>, shutdown: &CancellationToken) {
    let service = hyper::service::service_fn(|request| {
        let shared = Arc::clone(shared);
        async move { Ok::<_, Infallible>(answer(&shared, request).await) }
    });
    let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let graceful = async {
        tokio::select! {
            ended = connection.as_mut() => return ended,
            () = shutdown.cancelled() => {}
        }
        connection.as_mut().graceful_shutdown();
        connection.await
    };
    tokio::select! {
        ended = graceful => if let Err(error) = ended {
            tracing::debug!(%error, "a connection ended early");
        },
        () = shared.stop.cancelled() => {}
    }
}

async fn answer(shared: &Shared, request: Request<Incoming>) -> Response {
    let mut request = request.map(Unread::new);
    let caller = match shared.auth.check(request.headers()) {
        Ok(caller) => caller,
        Err(error) => {
            tracing::warn!(
                path = request.uri().path(),
                "a call without a valid token was refused"
            );
            return error.into_response();
        }
    };
    request.extensions_mut().insert(caller);
    let span = tracing::info_span!(
        "rpc",
        method = %request.method(),
        path = request.uri().path(),
        %caller,
    );
    handle(shared.router.clone(), request)
        .instrument(span)
        .await
}

async fn handle(mut router: Router, request: Request<Unread>) -> Response {
    let handled = AssertUnwindSafe(async move { router.call(request).await })
        .catch_unwind()
        .await;
    let response = match handled {
        Ok(Ok(response)) => explained(response).await,
        Ok(Err(never)) => match never {},
        Err(panic) => {
            tracing::error!(panic = panic_text(panic.as_ref()), "a handler panicked");
            broken()
        }
    };
    if response.status().is_server_error() {
        tracing::warn!(status = response.status().as_u16(), "a request failed");
    }
    response
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message")
}
