//! What may be called by whom, which fields may be sent, and what is waited for.

use crate::support::{Ask, Proxy, llama, quick};
use axum::http::HeaderMap;
use bxcore::code::Code;
use bxcore::wire::inferproxy::{StopReply, Waiting};
use bxkit::rpc::CallError;
use bxtest::llama::{LlamaServer, Reply};
use inferproxy::limits::Limits;
use serde_json::json;
use std::time::Duration;

#[tokio::test]
async fn fields_that_are_not_allowed_never_reach_the_server() {
    let server = LlamaServer::builder().start().await;
    let proxy = Proxy::start(&llama(&server)).await;
    for (name, value) in [
        ("n_discard", json!(-1)),
        ("lora", json!([{"id": 0, "scale": 1}])),
        ("id_slot", json!(99)),
        ("cache_prompt", json!(false)),
        ("temperature", json!(-5)),
    ] {
        let ended = proxy.call(&Ask::slot(0).with(name, value)).await;
        assert_eq!(ended.code(), Some(Code::FieldNotAllowed));
        assert!(ended.detail().contains(name), "{}", ended.detail());
    }
    assert_eq!(server.counts().started, 0);
}

#[tokio::test]
async fn only_loopd_starts_and_stops_inference() {
    let server = LlamaServer::builder().start().await;
    let proxy = Proxy::start(&llama(&server)).await;
    let body = Ask::slot(0).body.to_string().into();
    let refused = proxy
        .owner
        .stream_raw("/v1/chat", body, HeaderMap::default())
        .await;
    assert_eq!(refused.unwrap_err().code(), Code::NotAuthorised);
    let stop = json!({"session": "a", "call": 1});
    let refused: Result<StopReply, CallError> = proxy.owner.post("/v1/stop", &stop).await;
    assert_eq!(refused.unwrap_err().code(), Code::NotAuthorised);
}

#[tokio::test]
async fn a_loading_model_is_waited_for() {
    let server = LlamaServer::builder()
        .loading()
        .reply("ready")
        .start()
        .await;
    let proxy = Proxy::start(&llama(&server)).await;
    let stream = proxy.begin(&Ask::slot(0)).await.unwrap();
    server.set_loading(false);
    let ended = crate::support::read(stream).await;
    assert_eq!(ended.waits, [Waiting::Loading]);
    assert_eq!(ended.content(), "ready");
}

#[tokio::test]
async fn a_model_that_loads_again_is_waited_for() {
    let server = LlamaServer::builder()
        .replies([Reply::loading(), Reply::text("ready")])
        .start()
        .await;
    let proxy = Proxy::start(&llama(&server)).await;
    let ended = proxy.call(&Ask::slot(0)).await;
    assert_eq!(ended.waits, [Waiting::Loading]);
    assert_eq!(ended.content(), "ready");
}

#[tokio::test]
async fn a_model_that_loads_for_ever_is_given_up() {
    let limits = Limits {
        loading_wait: Duration::from_millis(100),
        ..quick()
    };
    let server = LlamaServer::builder().loading().start().await;
    let proxy = Proxy::with(&llama(&server), limits, None).await;
    assert_eq!(
        proxy.call(&Ask::slot(0)).await.code(),
        Some(Code::BackendLoading)
    );

    let server = LlamaServer::builder()
        .respond(|_| Reply::loading())
        .start()
        .await;
    let proxy = Proxy::with(&llama(&server), limits, None).await;
    assert_eq!(
        proxy.call(&Ask::slot(0)).await.code(),
        Some(Code::BackendLoading)
    );
}

#[tokio::test]
async fn a_pause_is_kept_a_bounded_number_of_times() {
    let server = LlamaServer::builder()
        .replies([
            Reply::rate_limited(0),
            Reply::rate_limited(0),
            Reply::text("at last"),
        ])
        .start()
        .await;
    let proxy = Proxy::start(&llama(&server)).await;
    let ended = proxy.call(&Ask::slot(0)).await;
    assert_eq!(ended.content(), "at last");
    assert_eq!(
        ended.waits,
        [Waiting::RetryAfter { ms: 0 }, Waiting::RetryAfter { ms: 0 }]
    );

    let server = LlamaServer::builder()
        .respond(|_| Reply::rate_limited(0))
        .start()
        .await;
    let proxy = Proxy::start(&llama(&server)).await;
    assert_eq!(
        proxy.call(&Ask::slot(0)).await.code(),
        Some(Code::BackendBusy)
    );
    assert_eq!(server.counts().started, 4);

    let server = LlamaServer::builder()
        .respond(|_| Reply::rate_limited(3_600))
        .start()
        .await;
    let proxy = Proxy::start(&llama(&server)).await;
    assert_eq!(
        proxy.call(&Ask::slot(0)).await.code(),
        Some(Code::BackendBusy)
    );
    assert_eq!(server.counts().started, 1);
}

#[tokio::test]
async fn a_prompt_that_does_not_fit_is_told_as_such() {
    let server = LlamaServer::builder()
        .context_tokens(8)
        .reply("x")
        .start()
        .await;
    let proxy = Proxy::start(&llama(&server)).await;
    let long = json!([{"role": "user", "content": "word ".repeat(100)}]);
    let ended = proxy.call(&Ask::slot(0).with("messages", long)).await;
    assert_eq!(ended.code(), Some(Code::ContextFull));
}
