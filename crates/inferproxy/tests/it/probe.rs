//! The probe of a backend.

use crate::support::{Proxy, llama, openai};
use bxcore::code::Code;
use bxcore::wire::inferproxy::{ProbeReport, ProbeVerdict};
use bxkit::rpc::CallError;
use bxtest::llama::{Kind, LlamaServer, Reply, Request};
use serde_json::json;

async fn probe(proxy: &Proxy) -> Result<ProbeReport, CallError> {
    proxy
        .owner
        .post("/v1/backends/local/probe", &json!({}))
        .await
}

/// Does whatever the request holds the server to.
fn obedient(request: &Request) -> Reply {
    if let Some(name) = request.value().pointer("/tool_choice/function/name") {
        return Reply::tool_call(name.as_str().unwrap(), json!({"colour": "red"}));
    }
    if request.response_schema().is_some() {
        return Reply::json(&json!({"colour": "teal"}));
    }
    Reply::text("river")
}

#[tokio::test]
async fn good_slots_keep_the_cache() {
    let server = LlamaServer::builder().respond(obedient).start().await;
    let proxy = Proxy::start(&llama(&server)).await;
    let report = probe(&proxy).await.unwrap();
    assert_eq!(report.verdict, ProbeVerdict::CacheSurvives, "{report:?}");
    assert!(report.flags.is_empty());
    assert!(report.forced_tool && report.json_schema);
    let slots: Vec<_> = report.calls.iter().map(|call| call.slot).collect();
    assert_eq!(slots, [Some(0), Some(2), Some(0)]);
    assert_eq!(report.calls[0].cache_n, Some(0));
    assert!(report.calls[0].prompt_tokens > 200);
}

#[tokio::test]
async fn a_shared_cache_is_found_out_and_the_flags_are_named() {
    let server = LlamaServer::builder()
        .cache_idle_slots(true)
        .respond(|_| Reply::text("river"))
        .start()
        .await;
    let proxy = Proxy::start(&llama(&server)).await;
    let report = probe(&proxy).await.unwrap();
    assert_eq!(report.verdict, ProbeVerdict::CacheLost);
    assert_eq!(report.flags, ["-np 3", "--no-cache-idle-slots"]);
    assert!(!report.forced_tool && !report.json_schema);
}

#[tokio::test]
async fn single_and_missing_slots_are_told_apart() {
    let server = LlamaServer::builder()
        .slots(1)
        .respond(obedient)
        .start()
        .await;
    let proxy = Proxy::start(&llama(&server)).await;
    let report = probe(&proxy).await.unwrap();
    assert_eq!(report.verdict, ProbeVerdict::SlotMissing);
    assert_eq!(report.flags, ["-np 3"]);
    assert_eq!(server.counts().started, 0);

    let single = llama(&server).replace(
        "main = [0, 1], background = 2",
        "main = [0], background = 0",
    );
    let proxy = Proxy::start(&single).await;
    assert_eq!(
        probe(&proxy).await.unwrap().verdict,
        ProbeVerdict::SingleSlot
    );
}

#[tokio::test]
async fn a_server_without_slots_is_probed_too() {
    let server = LlamaServer::builder()
        .kind(Kind::OpenAi)
        .respond(obedient)
        .start()
        .await;
    let proxy = Proxy::start(&openai(&server)).await;
    let report = probe(&proxy).await.unwrap();
    assert_eq!(report.verdict, ProbeVerdict::NoSlots);
    assert!(report.calls.iter().all(|call| call.slot.is_none()));
}

#[tokio::test]
async fn hidden_slots_are_named() {
    let server = LlamaServer::builder()
        .slots_endpoint(false)
        .respond(obedient)
        .start()
        .await;
    let proxy = Proxy::start(&llama(&server)).await;
    assert_eq!(probe(&proxy).await.unwrap().flags, ["--slots"]);
}

#[tokio::test]
async fn what_is_not_there_can_not_be_probed() {
    let mut server = LlamaServer::builder().start().await;
    let proxy = Proxy::start(&llama(&server)).await;
    server.kill();
    assert_eq!(
        probe(&proxy).await.unwrap_err().code(),
        Code::BackendUnreachable
    );
    let unknown: Result<ProbeReport, CallError> = proxy
        .owner
        .post("/v1/backends/other/probe", &json!({}))
        .await;
    assert_eq!(unknown.unwrap_err().code(), Code::BackendUnknown);
}
