//! Servers that fail in every way there is: each a clear code, and the slot is free afterwards.

use crate::support::{Ask, Ended, Proxy, llama, openai, quick};
use bxcore::code::Code;
use bxtest::llama::{Garbage, Gate, Kind, LlamaServer, Reply};
use inferproxy::limits::Limits;
use std::time::Duration;

/// Makes one call that is answered with `reply`, then one that must succeed.
async fn fail_with(reply: Reply) -> Ended {
    let server = LlamaServer::builder()
        .replies([reply, Reply::text("fine")])
        .start()
        .await;
    let proxy = Proxy::start(&llama(&server)).await;
    let ended = proxy.call(&Ask::slot(0)).await;
    assert_eq!(proxy.call(&Ask::slot(0).number(2)).await.content(), "fine");
    ended
}

#[tokio::test]
async fn garbage_is_named_and_none_of_it_is_passed_on() {
    for garbage in Garbage::ALL {
        let ended = fail_with(Reply::garbage(garbage)).await;
        let expect = match garbage {
            Garbage::ErrorInStream => Code::BackendError,
            _ => Code::BackendGarbled,
        };
        assert_eq!(
            ended.code(),
            Some(expect),
            "{garbage:?}: {:?}",
            ended.problem
        );
        assert!(ended.receipt.is_none());
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_cut_off_at_any_place() {
    for reply in [
        Reply::hang_up(),
        Reply::text("one two three").cut_after_chunks(0),
        Reply::text("one two three")
            .chunk_bytes(4)
            .cut_after_chunks(2),
        Reply::text("one two three").cut_after_bytes(0),
        Reply::text("one two three").cut_after_bytes(600),
    ] {
        let ended = fail_with(reply.clone()).await;
        assert_eq!(
            ended.code(),
            Some(Code::BackendCutOff),
            "{reply:?}: {:?}",
            ended.problem
        );
    }
}

#[tokio::test]
async fn errors_of_the_server_are_told() {
    let check = async |reply: Reply, code: Code, words: &str| {
        let ended = fail_with(reply).await;
        assert_eq!(ended.code(), Some(code), "{ended:?}");
        assert!(ended.detail().contains(words), "{ended:?}");
    };
    check(
        Reply::server_error(),
        Code::BackendError,
        "scripted failure",
    )
    .await;
    check(Reply::unauthorized(), Code::BackendError, "Invalid API Key").await;
    check(
        Reply::context_exceeded(9031, 8192),
        Code::ContextFull,
        "9031",
    )
    .await;
    let redirect = Reply::http(301, "text/html", "moved").header("location", "http://192.0.2.1/");
    check(redirect, Code::BackendError, "301").await;
    check(
        Reply::http(400, "text/html", "<html>"),
        Code::BackendError,
        "<html>",
    )
    .await;
}

#[tokio::test]
async fn a_server_that_is_killed_in_the_middle_is_reported_and_looked_at_anew() {
    let gate = Gate::new();
    gate.release(1);
    let reply = Reply::text("one two three").chunk_bytes(4).gated(&gate);
    let mut server = LlamaServer::builder()
        .replies([reply, Reply::text("back")])
        .start()
        .await;
    let proxy = Proxy::start(&llama(&server)).await;
    let ask = Ask::slot(0);
    let mut stream = proxy.begin(&ask).await.unwrap();
    crate::support::first_words(&mut stream).await;
    server.kill();
    assert_eq!(
        crate::support::read(stream).await.code(),
        Some(Code::BackendCutOff)
    );
    proxy.quiet().await;
    let gone = proxy.call(&ask.clone().number(2)).await;
    assert_eq!(gone.code(), Some(Code::BackendUnreachable));
    server.restart();
    // Not looked at again for a moment after it was found to be away.
    server.until("it is back", |_| true).await;
    for number in 3.. {
        let ended = proxy.call(&ask.clone().number(number)).await;
        if ended.receipt.is_some() {
            assert_eq!(ended.content(), "back");
            break;
        }
        assert_eq!(ended.code(), Some(Code::BackendUnreachable));
        assert!(number < 1_000, "the server is never seen again");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn silence_without_movement_is_a_stall() {
    let limits = Limits {
        liveness: Duration::from_secs(1),
        ..quick()
    };
    for reply in [
        Reply::stall(),
        Reply::text("one two").chunk_bytes(4).stall_after_chunks(2),
    ] {
        let server = LlamaServer::builder()
            .replies([reply, Reply::text("fine")])
            .start()
            .await;
        let proxy = Proxy::with(&llama(&server), limits, None).await;
        let ended = proxy.call(&Ask::slot(0)).await;
        assert_eq!(ended.code(), Some(Code::BackendStalled));
        assert_eq!(proxy.call(&Ask::slot(0).number(2)).await.content(), "fine");
    }
}

#[tokio::test]
async fn a_slow_server_without_slots_stalls_too() {
    let limits = Limits {
        liveness: Duration::from_secs(1),
        ..quick()
    };
    let server = LlamaServer::builder()
        .kind(Kind::OpenAi)
        .reply(Reply::stall())
        .start()
        .await;
    let proxy = Proxy::with(&openai(&server), limits, None).await;
    let ended = proxy.call(&Ask::slotless("chat-1")).await;
    assert_eq!(ended.code(), Some(Code::BackendStalled));
}

#[tokio::test]
async fn a_prompt_that_is_read_for_long_is_life() {
    // Each batch takes a fifth of the allowed silence; the whole takes longer than is allowed.
    let limits = Limits {
        liveness: Duration::from_millis(1_500),
        ..quick()
    };
    let server = LlamaServer::builder()
        .prefill(40, Duration::from_millis(300))
        .reply("read")
        .start()
        .await;
    let proxy = Proxy::with(&llama(&server), limits, None).await;
    let long = serde_json::json!([{"role": "user", "content": "word ".repeat(400)}]);
    let ended = proxy.call(&Ask::slot(0).with("messages", long)).await;
    assert_eq!(ended.content(), "read");
    assert!(ended.receipt.unwrap().prefill_ms > 1_500);
}
