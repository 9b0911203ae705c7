//! The endpoints beside chat, in both kinds, while loading, and behind a key.

use bxtest::llama::{Kind, LlamaServer, Reply};
use http_body_util::Full;
use hyper::Request;
use insta::assert_snapshot;
use serde_json::Value;

use crate::client::{get, open, opener, post, read, request};

#[tokio::test]
async fn llama_server_describes_itself() {
    let server = LlamaServer::builder()
        .slots(3)
        .context_tokens(8192)
        .supports_tools(false)
        .start()
        .await;
    assert_eq!(get(&server, "/health").await.json()["status"], "ok");
    let props = get(&server, "/props").await.json();
    assert_eq!(props["total_slots"], 3);
    assert_eq!(props["default_generation_settings"]["n_ctx"], 8192);
    assert_eq!(props["chat_template_caps"]["supports_tools"], false);
    assert_eq!(
        get(&server, "/v1/models").await.json()["data"][0]["id"],
        "scripted"
    );
    assert_snapshot!(get(&server, "/slots").await.json()[2], @r#"{"id":2,"n_ctx":8192,"speculative":false,"is_processing":false}"#);
    let metrics = String::from_utf8(get(&server, "/metrics").await.body).unwrap();
    assert!(metrics.contains("llamacpp:requests_processing 0"));
    let missing = get(&server, "/api/tags").await;
    assert_eq!(
        (missing.status, &missing.json()["error"]["type"]),
        (404, &Value::from("not_found_error"))
    );
    server.set_model("other");
    assert_eq!(get(&server, "/props").await.json()["model_alias"], "other");
}

#[tokio::test]
async fn an_openai_server_has_no_slots() {
    let server = LlamaServer::builder()
        .kind(Kind::OpenAi)
        .reply("hi")
        .start()
        .await;
    for path in ["/props", "/slots", "/metrics"] {
        assert_eq!(get(&server, path).await.status, 404, "{path}");
    }
    assert_eq!(get(&server, "/v1/models").await.json()["object"], "list");
    let refused = post(&server, &request(&opener("hi"))).await;
    assert_eq!(refused.status, 400);
    assert_eq!(
        server.take_breaches().len(),
        3,
        "id_slot, cache_prompt, return_progress"
    );
    assert_eq!(server.queued(), 1, "a refused request uses up no reply");
}

#[tokio::test]
async fn slots_may_be_switched_off() {
    let server = LlamaServer::builder().slots_endpoint(false).start().await;
    assert_eq!(get(&server, "/slots").await.status, 501);
}

#[tokio::test]
async fn a_loading_model_answers_nothing() {
    let server = LlamaServer::builder().loading().reply("hi").start().await;
    for path in ["/health", "/props", "/slots"] {
        let answer = get(&server, path).await;
        assert_eq!(answer.status, 503);
        assert_eq!(answer.json()["error"]["message"], "Loading model");
        assert_eq!(answer.json()["error"]["type"], "unavailable_error");
    }
    assert_eq!(post(&server, &request(&opener("hi"))).await.status, 503);
    assert_eq!(server.counts().started, 0);
    server.set_loading(false);
    assert_eq!(
        post(&server, &request(&opener("hi")))
            .await
            .joined("content"),
        "hi"
    );
}

#[tokio::test]
async fn a_key_is_required_where_one_is_set() {
    let server = LlamaServer::builder()
        .api_key("abc")
        .reply(Reply::text("hi"))
        .start()
        .await;
    assert_eq!(get(&server, "/health").await.status, 200);
    let refused = get(&server, "/props").await;
    assert_eq!(refused.status, 401);
    assert_eq!(refused.json()["error"]["message"], "Invalid API Key");
    let with_key = Request::get("/props")
        .header("host", "x")
        .header("authorization", "Bearer abc");
    let answer = open(&server, with_key.body(Full::default()).unwrap())
        .await
        .unwrap();
    assert_eq!(read(answer).await.status, 200);
}
