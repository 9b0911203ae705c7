//! Answers that come whole: passed on as they are, measured, dumped.

use crate::support::{Ask, Proxy, first_words, llama, openai, read};
use bxcore::chat::Finish;
use bxcore::usage::UsageSource;
use bxtest::llama::{Gate, Kind, LlamaServer, Reply};
use serde_json::json;
use std::os::unix::fs::PermissionsExt;

#[tokio::test]
async fn an_answer_arrives_with_its_receipt() {
    let server = LlamaServer::builder().reply("It is noon.").start().await;
    let proxy = Proxy::start(&llama(&server)).await;
    let ended = proxy.call(&Ask::slot(0)).await;
    assert_eq!(ended.content(), "It is noon.");
    let receipt = ended.receipt.unwrap();
    let figures = server.requests()[0].figures.unwrap();
    assert_eq!(receipt.slot, Some(0));
    assert_eq!(
        receipt.prompt_tokens,
        (figures.cache_n + figures.prompt_n) as u64
    );
    assert_eq!(receipt.completion_tokens, figures.predicted_n as u64);
    assert_eq!(receipt.cache_n, Some(figures.cache_n as u64));
    assert_eq!(receipt.source, UsageSource::Reported);
}

#[tokio::test]
async fn the_body_reaches_the_server_byte_for_byte_and_the_dump() {
    let server = LlamaServer::builder()
        .replies([Reply::text("a"), Reply::text("b")])
        .start()
        .await;
    let proxy = Proxy::start(&format!("wire_dump = true\n{}", llama(&server))).await;
    let first = Ask::slot(0);
    let second = Ask::slot(2).with("temperature", json!(0.5));
    for ask in [&first, &second] {
        proxy.call(ask).await.content();
    }
    let sent: Vec<_> = server
        .requests()
        .iter()
        .map(|seen| seen.request.raw().clone())
        .collect();
    assert_eq!(sent, [first.body.to_string(), second.body.to_string()]);
    let path = proxy.folder.path().join("wire.jsonl");
    let dumped = std::fs::read_to_string(&path).unwrap();
    assert_eq!(dumped, format!("{}\n{}\n", first.body, second.body));
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn words_pass_as_they_come() {
    let gate = Gate::new();
    let reply = Reply::text("one two").chunk_bytes(4).gated(&gate);
    let server = LlamaServer::builder().reply(reply).start().await;
    let proxy = Proxy::start(&llama(&server)).await;
    let mut stream = proxy.begin(&Ask::slot(0)).await.unwrap();
    gate.release(1);
    // The second piece is still held back: the first can't have waited for it.
    assert_eq!(first_words(&mut stream).await, "one ");
    gate.open();
    assert_eq!(read(stream).await.text, "two");
}

#[tokio::test]
async fn a_stream_cut_anywhere_is_put_together() {
    for bytes in [1, 7, 100] {
        let reply = Reply::text("Grüße aus der Küche").transport_bytes(bytes);
        let server = LlamaServer::builder().reply(reply).start().await;
        let proxy = Proxy::start(&llama(&server)).await;
        assert_eq!(
            proxy.call(&Ask::slot(0)).await.content(),
            "Grüße aus der Küche"
        );
    }
}

#[tokio::test]
async fn tool_calls_and_reasoning_pass() {
    let replies = [
        Reply::tool_call("clock", json!({"zone": "UTC"})).reasoning("what time is it"),
        Reply::text("cut").finish(bxtest::llama::Finish::Length),
    ];
    let server = LlamaServer::builder().replies(replies).start().await;
    let proxy = Proxy::start(&llama(&server)).await;
    let answer = proxy.call(&Ask::slot(0)).await.answer.unwrap();
    assert_eq!(answer.finish, Finish::ToolCalls);
    assert_eq!(answer.tool_calls[0].arguments, "{\"zone\":\"UTC\"}");
    assert_eq!(answer.reasoning, "what time is it");
    let answer = proxy.call(&Ask::slot(2)).await.answer.unwrap();
    assert_eq!(answer.finish, Finish::Length);
}

#[tokio::test]
async fn a_server_without_slots_is_measured_too() {
    let server = LlamaServer::builder()
        .kind(Kind::OpenAi)
        .replies([Reply::text("a"), Reply::text("b")])
        .start()
        .await;
    let proxy = Proxy::start(&openai(&server)).await;
    let ended = proxy.call(&Ask::slotless("chat-1")).await;
    assert_eq!(ended.content(), "a");
    let receipt = ended.receipt.unwrap();
    assert_eq!(
        (receipt.slot, receipt.source),
        (None, UsageSource::Reported)
    );
    assert_eq!(receipt.cache_n, Some(0));
    assert_eq!(
        proxy
            .call(&Ask::slotless("chat-1").number(2))
            .await
            .content(),
        "b"
    );
}

#[tokio::test]
async fn a_server_without_slots_gets_no_more_than_it_takes_at_once() {
    const CALLS: usize = 12;
    let gate = Gate::new();
    let held = gate.clone();
    let server = LlamaServer::builder()
        .kind(Kind::OpenAi)
        .max_concurrency(3)
        .respond(move |_| Reply::text("ok").hold(&held))
        .start()
        .await;
    let proxy = Proxy::start(&format!("{}max_concurrency = 3\n", openai(&server))).await;
    let asks: Vec<_> = (0..CALLS)
        .map(|at| Ask::slotless(&format!("chat-{at}")))
        .collect();
    let calls = futures_util::future::join_all(asks.iter().map(|ask| proxy.call(ask)));
    let release = async {
        gate.arrived(3).await;
        gate.open();
    };
    let (ended, ()) = tokio::join!(calls, release);
    assert!(ended.iter().all(|ended| ended.content() == "ok"));
    assert_eq!(server.counts().most_at_once, 3);
}
