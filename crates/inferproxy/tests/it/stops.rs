//! Calls that are stopped, and callers that go away.

use crate::support::{Ask, Proxy, first_words, llama, openai, read};
use bxcore::code::Code;
use bxcore::wire::inferproxy::{SlotActivity, SlotStatus, StopReply, Waiting};
use bxtest::llama::{Gate, Kind, LlamaServer, Outcome, Reply};
use std::time::Duration;

fn endless() -> Reply {
    Reply::text("word ".repeat(10))
        .chunk_bytes(5)
        .gated(&Gate::new())
        .after(Duration::ZERO)
}

/// An answer that begins and then waits for ever.
fn begun() -> (Reply, Gate) {
    let gate = Gate::new();
    gate.release(1);
    (
        Reply::text("one two three").chunk_bytes(4).gated(&gate),
        gate,
    )
}

#[tokio::test]
async fn a_stopped_call_closes_the_connection_and_frees_its_slot() {
    let (reply, _gate) = begun();
    let server = LlamaServer::builder()
        .replies([reply, Reply::text("next")])
        .start()
        .await;
    let proxy = Proxy::start(&llama(&server)).await;
    let ask = Ask::slot(0);
    let mut stream = proxy.begin(&ask).await.unwrap();
    first_words(&mut stream).await;
    assert_eq!(proxy.stop(&ask).await, StopReply::Idle);
    assert_eq!(read(stream).await.code(), Some(Code::Stopped));
    assert_eq!(server.requests()[0].outcome, Outcome::ClosedByClient);
    assert_eq!(server.busy_slots(), 0);
    assert_eq!(proxy.call(&ask.number(2)).await.content(), "next");
}

#[tokio::test]
async fn a_caller_that_goes_away_ends_its_call() {
    let (reply, _gate) = begun();
    let server = LlamaServer::builder()
        .replies([reply, Reply::text("next")])
        .start()
        .await;
    let proxy = Proxy::start(&llama(&server)).await;
    let mut stream = proxy.begin(&Ask::slot(0)).await.unwrap();
    first_words(&mut stream).await;
    drop(stream);
    server
        .until("the call is aborted", |server| server.counts().aborted == 1)
        .await;
    proxy.quiet().await;
    assert_eq!(proxy.call(&Ask::slot(0).number(2)).await.content(), "next");
}

#[tokio::test]
async fn nothing_can_be_stopped_that_is_not_under_way() {
    let server = LlamaServer::builder().reply("x").start().await;
    let proxy = Proxy::start(&llama(&server)).await;
    let ask = Ask::slot(0);
    assert_eq!(proxy.stop(&ask).await, StopReply::NotRunning);
    proxy.call(&ask).await.content();
    proxy.quiet().await;
    assert_eq!(proxy.stop(&ask).await, StopReply::NotRunning);
}

#[tokio::test]
async fn a_slot_that_can_not_be_stopped_drains_and_the_next_call_waits() {
    // One batch of a prompt takes two seconds, and nothing stops it.
    let server = LlamaServer::builder()
        .prefill(1 << 20, Duration::from_secs(2))
        .replies([Reply::text("never seen"), Reply::text("next")])
        .start()
        .await;
    let limits = inferproxy::limits::Limits {
        stop_wait: Duration::from_millis(100),
        ..crate::support::quick()
    };
    let proxy = Proxy::with(&llama(&server), limits, None).await;
    let ask = Ask::slot(0);
    let stream = proxy.begin(&ask).await.unwrap();
    server
        .until("the slot is at work", |server| server.busy_slots() == 1)
        .await;
    assert_eq!(proxy.stop(&ask).await, StopReply::Draining);
    assert_eq!(read(stream).await.code(), Some(Code::Stopped));
    let slots: Vec<SlotStatus> = proxy.owner.get("/v1/slots").await.unwrap();
    assert_eq!(slots[0].activity, SlotActivity::Draining);

    let next = proxy.begin(&ask.clone().number(2)).await.unwrap();
    let third = proxy.call(&ask.number(3)).await;
    assert_eq!(
        third.code(),
        Some(Code::SlotBusy),
        "one call waits for a slot, not two"
    );
    let ended = read(next).await;
    assert_eq!(ended.waits, [Waiting::Draining]);
    assert_eq!(ended.content(), "next");
    // Had the second call been sent while the slot drained, the server would have reported it.
    server.assert_clean();
}

#[tokio::test]
async fn a_call_that_waits_for_its_slot_can_be_stopped() {
    let server = LlamaServer::builder()
        .prefill(1 << 20, Duration::from_secs(2))
        .reply("never seen")
        .start()
        .await;
    let proxy = Proxy::start(&llama(&server)).await;
    let first = proxy.begin(&Ask::slot(0)).await.unwrap();
    server
        .until("the slot is at work", |server| server.busy_slots() == 1)
        .await;
    drop(first);
    server
        .until("the slot drains", |_| proxy.engine.running() == 1)
        .await;
    let waits = Ask::slot(0).number(2);
    // Until the proxy has seen its caller go, the slot is busy.
    let mut stream = loop {
        match proxy.begin(&waits).await {
            Ok(stream) => break stream,
            Err(problem) => assert_eq!(problem.code, Code::SlotBusy),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    assert_eq!(stream.next().await.unwrap().unwrap().event, "waiting");
    assert_eq!(proxy.stop(&waits).await, StopReply::Idle);
    assert_eq!(read(stream).await.code(), Some(Code::Stopped));
    proxy.quiet().await;
    assert_eq!(server.counts().started, 1);
}

#[tokio::test]
async fn a_server_that_hides_its_slots_is_given_a_moment() {
    let (reply, _gate) = begun();
    let server = LlamaServer::builder()
        .slots_endpoint(false)
        .replies([reply, Reply::text("next")])
        .start()
        .await;
    let proxy = Proxy::start(&llama(&server)).await;
    let ask = Ask::slot(0);
    let mut stream = proxy.begin(&ask).await.unwrap();
    first_words(&mut stream).await;
    drop(stream);
    server
        .until("the call is aborted", |server| server.counts().aborted == 1)
        .await;
    assert_eq!(proxy.call(&ask.number(2)).await.content(), "next");
}

#[tokio::test]
async fn a_stop_needs_no_slots() {
    let server = LlamaServer::builder()
        .kind(Kind::OpenAi)
        .reply(endless())
        .start()
        .await;
    let proxy = Proxy::start(&openai(&server)).await;
    let ask = Ask::slotless("chat-1");
    let stream = proxy.begin(&ask).await.unwrap();
    server
        .until("the call has begun", |server| server.counts().running == 1)
        .await;
    assert_eq!(proxy.stop(&ask).await, StopReply::Idle);
    assert_eq!(read(stream).await.code(), Some(Code::Stopped));
    server
        .until("the call is aborted", |server| server.counts().aborted == 1)
        .await;
}
