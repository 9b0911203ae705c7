//! Calls and answers over a real socket.

use crate::support::{PATIENCE, Served};
use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode};
use axum::{Router, routing};
use bxcore::code::Code;
use bxcore::problem::Problem;
use bxcore::role::Role;
use bxkit::keys::{Caller, Token};
use bxkit::rpc::{ApiError, Break, CallError, Callers, Client, Json, MAX_BODY_BYTES, health};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sum {
    left: u32,
    right: u32,
}

fn routes() -> Router {
    Router::new()
        .route("/who", routing::get(async |caller: Caller| Json(caller)))
        .route(
            "/sum",
            routing::post(async |Json(sum): Json<Sum>| Json(sum.left + sum.right)),
        )
        .route("/nothing", routing::delete(async || StatusCode::NO_CONTENT))
        .route(
            "/session/{id}",
            routing::get(async |Path(id): Path<u32>| Json(id)),
        )
        .route(
            "/panic",
            routing::get(async || -> Json<u32> { panic!("a handler's fault") }),
        )
        .route(
            "/refused",
            routing::get(async || -> ApiError {
                Problem::new(Code::NoGrant, "No")
                    .detail("why")
                    .hint("what to do")
                    .into()
            }),
        )
        .route(
            "/owner-only",
            routing::get(async |caller: Caller| caller.must_be(&[Caller::Owner])),
        )
        .route(
            "/size",
            routing::post(async |body: bytes::Bytes| Json(body.len())),
        )
        .merge(health(Role::Brokerd))
}

fn refused(error: CallError) -> Problem {
    match error {
        CallError::Refused(problem) => problem,
        other => panic!("not a refusal: {other}"),
    }
}

#[tokio::test]
async fn calls_are_answered_and_the_caller_is_known() {
    let served = Served::new(routes());
    let client = served.client();
    assert_eq!(
        client
            .post::<_, u32>("/sum", &Sum { left: 1, right: 2 })
            .await
            .unwrap(),
        3
    );
    assert_eq!(client.get::<Caller>("/who").await.unwrap(), Caller::Owner);
    client.delete::<()>("/nothing").await.unwrap();
    let keys = served.ring.for_role(Role::Loopd, None);
    let loopd = served.client_with(keys.token_for(Role::Brokerd).unwrap());
    assert_eq!(
        loopd.get::<Caller>("/who").await.unwrap(),
        Caller::Role(Role::Loopd)
    );
    client.get::<()>("/owner-only").await.unwrap();
    let problem = refused(loopd.get::<()>("/owner-only").await.unwrap_err());
    assert_eq!(problem.code, Code::NotAuthorised);
}

#[tokio::test]
async fn health_tells_who_is_ready() {
    let served = Served::new(routes());
    let health = served.client().wait_ready(PATIENCE).await.unwrap();
    assert_eq!(
        (health.name.as_str(), health.pid),
        ("brokerd", std::process::id())
    );
}

#[tokio::test]
async fn a_wrong_token_is_refused() {
    let served = Served::new(routes());
    let stranger = served.client_with(&Token::generate().unwrap());
    let error = stranger.get::<Caller>("/who").await.unwrap_err();
    assert_eq!(refused(error).code, Code::NotAuthorised);
    let error = stranger.wait_ready(PATIENCE).await.unwrap_err();
    assert_eq!(refused(error).code, Code::NotAuthorised);
    // Of another pair: loopd's token for inferproxy opens nothing here.
    let keys = served.ring.for_role(Role::Loopd, None);
    let other = served.client_with(keys.token_for(Role::Inferproxy).unwrap());
    assert_eq!(
        other.get::<Caller>("/who").await.unwrap_err().code(),
        Code::NotAuthorised
    );
    let answer = stranger
        .post_raw("/sum", bytes::Bytes::from("{}"), HeaderMap::new())
        .await
        .unwrap();
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
    assert_eq!(answer.headers["content-type"], "application/problem+json");
}

/// Sends a body as it is and gives status, code and detail of the refusal.
async fn refusal_of(client: &Client, path: &str, body: &'static str) -> (u16, Code, String) {
    let answer = client
        .post_raw(path, body.into(), HeaderMap::new())
        .await
        .unwrap();
    let status = answer.status.as_u16();
    let body = answer.body.collect(65_536).await.unwrap();
    let problem: Problem = serde_json::from_slice(&body).unwrap();
    (status, problem.code, problem.detail.unwrap_or_default())
}

#[tokio::test]
async fn a_wrong_body_is_a_bad_request_that_says_what_is_wrong() {
    let served = Served::new(routes());
    let client = served.client();
    for (body, why) in [
        ("{\"left\":1", "EOF"),
        ("{\"left\":1}", "missing field `right`"),
        ("{\"left\":1,\"right\":2,\"x\":3}", "unknown field `x`"),
        (
            "{\"left\":1,\"left\":1,\"right\":2}",
            "duplicate field `left`",
        ),
        ("null", "invalid type"),
        ("\"\\u0000", "EOF"),
    ] {
        let (status, code, detail) = refusal_of(&client, "/sum", body).await;
        assert_eq!((status, code), (400, Code::BadRequest), "{body}");
        assert!(detail.contains(why), "{body}: {detail}");
    }
    let (status, code, _) = refusal_of(&client, "/who", "{}").await;
    assert_eq!((status, code), (405, Code::BadRequest));
    let problem = refused(client.get::<u32>("/session/x").await.unwrap_err());
    assert_eq!(problem.code, Code::BadRequest);
}

#[tokio::test]
async fn a_deep_body_does_not_overflow_the_stack() {
    let served = Served::new(routes());
    let deep = "[".repeat(100_000);
    let answer = served
        .client()
        .post_raw("/sum", deep.into(), HeaderMap::new())
        .await
        .unwrap();
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_body_above_the_limit_is_refused_and_the_refusal_arrives() {
    let served = Served::new(routes());
    let client = served.client();
    for excess in [1, 20 * 1024 * 1024] {
        let body = vec![b'x'; MAX_BODY_BYTES + excess];
        let answer = client
            .post_raw("/size", body.into(), HeaderMap::new())
            .await
            .unwrap();
        assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
        let body = answer.body.collect(65_536).await.unwrap();
        assert_eq!(
            serde_json::from_slice::<Problem>(&body).unwrap().code,
            Code::TooLarge
        );
    }
    let body = vec![b'x'; MAX_BODY_BYTES];
    let answer = client
        .post_raw("/size", body.into(), HeaderMap::new())
        .await
        .unwrap();
    assert_eq!(answer.status, StatusCode::OK);
}

#[tokio::test]
async fn an_unauthorised_body_is_not_in_the_way_of_the_answer() {
    let served = Served::new(routes());
    let stranger = served.client_with(&Token::generate().unwrap());
    let body = vec![b'x'; 4 * 1024 * 1024];
    let answer = stranger
        .post_raw("/size", body.into(), HeaderMap::new())
        .await
        .unwrap();
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_problem_arrives_as_it_was_sent() {
    let served = Served::new(routes());
    let problem = refused(served.client().get::<()>("/refused").await.unwrap_err());
    assert_eq!(
        problem,
        Problem::new(Code::NoGrant, "No")
            .detail("why")
            .hint("what to do")
    );
}

#[tokio::test]
async fn an_unknown_address_is_named() {
    let served = Served::new(routes());
    let problem = refused(served.client().get::<()>("/nowhere").await.unwrap_err());
    assert_eq!(problem.code, Code::NotFound);
    assert!(problem.title.contains("/nowhere"), "{problem}");
    let problem = refused(
        served
            .client()
            .get::<()>("not an address")
            .await
            .unwrap_err(),
    );
    assert_eq!(problem.code, Code::BadRequest);
}

#[tokio::test]
async fn a_panic_costs_one_request_only() {
    let served = Served::new(routes());
    let client = served.client();
    let problem = refused(client.get::<u32>("/panic").await.unwrap_err());
    assert_eq!(problem.code, Code::Internal);
    assert!(
        !problem.to_string().contains("a handler's fault"),
        "details belong into the log"
    );
    assert_eq!(client.get::<Caller>("/who").await.unwrap(), Caller::Owner);
}

#[tokio::test]
async fn an_answer_that_fits_nothing_is_said_to() {
    let served = Served::new(routes());
    let error = served.client().get::<Sum>("/who").await.unwrap_err();
    assert!(
        matches!(
            error,
            CallError::Broken {
                why: Break::Garbled(_),
                ..
            }
        ),
        "{error}"
    );
    let error = served
        .client()
        .max_answer_bytes(3)
        .get::<Caller>("/who")
        .await
        .unwrap_err();
    assert!(
        matches!(
            error,
            CallError::Broken {
                why: Break::TooLarge { max_bytes: 3 },
                ..
            }
        ),
        "{error}"
    );
}

#[tokio::test]
async fn a_call_that_takes_too_long_is_given_up_and_its_handler_dropped() {
    struct Dropped(Arc<Notify>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.notify_one();
        }
    }
    let gone = Arc::new(Notify::new());
    let noticed = Arc::clone(&gone);
    let slow = async move || {
        let _dropped = Dropped(noticed);
        std::future::pending::<()>().await;
    };
    let served = Served::new(Router::new().route("/slow", routing::get(slow)));
    let client = served.client().timeout(Duration::from_millis(50));
    let error = client.get::<()>("/slow").await.unwrap_err();
    assert!(
        matches!(
            error,
            CallError::Broken {
                why: Break::TimedOut { .. },
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(error.code(), Code::RoleUnreachable);
    tokio::time::timeout(PATIENCE, gone.notified())
        .await
        .unwrap();
}

#[tokio::test]
async fn many_calls_at_once_are_all_answered() {
    let peak = Arc::new(AtomicUsize::new(0));
    let now = Arc::new(AtomicUsize::new(0));
    let handler = {
        let (peak, now) = (Arc::clone(&peak), Arc::clone(&now));
        async move || {
            peak.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(20)).await;
            now.fetch_sub(1, Ordering::SeqCst);
            Json(true)
        }
    };
    let served = Served::new(Router::new().route("/wait", routing::get(handler)));
    let client = served.client();
    for _ in 0..3 {
        let calls = (0..400).map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.get::<bool>("/wait").await })
        });
        for call in calls.collect::<Vec<_>>() {
            assert!(call.await.unwrap().unwrap());
        }
    }
    assert!(
        peak.load(Ordering::SeqCst) > 64,
        "calls don't wait for each other"
    );
}
