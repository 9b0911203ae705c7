//! Sockets: who may bind one, what is left of it, and calls across a restart of the other end.

use crate::support::{PATIENCE, Served, socket_in, start};
use axum::{Router, routing};
use bxcore::code::Code;
use bxcore::problem::Problem;
use bxkit::keys::KeyRing;
use bxkit::rpc::{BindError, CallError, Client, Json, SocketListener};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

fn routes(answer: &'static str) -> Router {
    Router::new().route("/a", routing::get(async move || Json(answer)))
}

#[tokio::test]
async fn a_socket_is_private_and_goes_with_its_listener() {
    let folder = tempfile::tempdir().unwrap();
    let path = socket_in(folder.path());
    let listener = SocketListener::bind(&path).unwrap();
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    drop(listener);
    assert!(!path.exists());
}

#[tokio::test]
async fn a_socket_left_behind_is_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = socket_in(folder.path());
    // A standard listener leaves its file behind, as a killed process does.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let (ring, shutdown) = (KeyRing::generate().unwrap(), CancellationToken::new());
    let _task = start(&path, routes("new"), &ring, &shutdown);
    let answer: String = Client::new(path, ring.owner()).get("/a").await.unwrap();
    assert_eq!(answer, "new");
}

#[tokio::test]
async fn a_live_socket_is_not_taken_over() {
    let served = Served::new(routes("first"));
    let error = SocketListener::bind(&served.socket()).unwrap_err();
    assert!(matches!(error, BindError::InUse(_)), "{error}");
    assert_eq!(Problem::from(error).code, Code::HomeHeld);
    assert_eq!(served.client().get::<String>("/a").await.unwrap(), "first");
}

#[tokio::test]
async fn what_is_no_socket_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = socket_in(folder.path());
    std::fs::write(&path, "mine").unwrap();
    let error = SocketListener::bind(&path).unwrap_err();
    assert!(matches!(error, BindError::NotASocket(_)), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), b"mine");
}

#[tokio::test]
async fn a_listener_does_not_remove_the_socket_of_its_successor() {
    let folder = tempfile::tempdir().unwrap();
    let path = socket_in(folder.path());
    let first = SocketListener::bind(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let _second = SocketListener::bind(&path).unwrap();
    drop(first);
    assert!(path.exists());
}

#[tokio::test]
async fn nobody_there_is_unreachable() {
    let folder = tempfile::tempdir().unwrap();
    let ring = KeyRing::generate().unwrap();
    let client = Client::new(socket_in(folder.path()), ring.owner());
    let error = client.get::<()>("/a").await.unwrap_err();
    assert!(matches!(error, CallError::Unreachable { .. }), "{error}");
    assert_eq!(error.code(), Code::RoleUnreachable);
    let error = client
        .wait_ready(Duration::from_millis(30))
        .await
        .unwrap_err();
    assert!(matches!(error, CallError::Unreachable { .. }), "{error}");
}

#[tokio::test]
async fn a_client_outlives_a_restart_of_its_server() {
    let mut served = Served::new(routes("old"));
    let client = served.client();
    // Several connections, so that several dead ones are kept.
    let calls = (0..8).map(|_| client.get::<String>("/a"));
    for answer in futures_util::future::join_all(calls).await {
        assert_eq!(answer.unwrap(), "old");
    }
    served.stop().await;
    let error = client.get::<String>("/a").await.unwrap_err();
    assert!(matches!(error, CallError::Unreachable { .. }), "{error}");
    served.restart(routes("new"));
    for _ in 0..8 {
        assert_eq!(client.get::<String>("/a").await.unwrap(), "new");
    }
}

#[tokio::test]
async fn requests_under_way_end_before_the_server_does() {
    let (started, finish) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let handler = {
        let (started, finish) = (Arc::clone(&started), Arc::clone(&finish));
        async move || {
            started.notify_one();
            finish.notified().await;
            Json("done")
        }
    };
    let mut served = Served::new(Router::new().route("/a", routing::get(handler)));
    let client = served.client();
    let call = tokio::spawn(async move { client.get::<String>("/a").await });
    tokio::time::timeout(PATIENCE, started.notified())
        .await
        .unwrap();
    served.shutdown.cancel();
    finish.notify_one();
    served.stop().await;
    assert_eq!(call.await.unwrap().unwrap(), "done");
}

#[tokio::test]
async fn a_server_that_dies_mid_call_breaks_the_call_and_nothing_is_sent_twice() {
    let started = Arc::new(Notify::new());
    let calls = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let handler = {
        let (started, calls) = (Arc::clone(&started), Arc::clone(&calls));
        async move || {
            calls.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            started.notify_one();
            std::future::pending::<()>().await;
        }
    };
    let served = Served::new(Router::new().route("/a", routing::post(handler)));
    let client = served.client();
    let call = tokio::spawn(async move { client.post::<_, ()>("/a", &1).await });
    tokio::time::timeout(PATIENCE, started.notified())
        .await
        .unwrap();
    served.task.abort();
    let error = call.await.unwrap().unwrap_err();
    assert!(matches!(error, CallError::Broken { .. }), "{error}");
    assert_eq!(calls.load(std::sync::atomic::Ordering::SeqCst), 1);
}
