//! What is on the wire is what is on record, and nothing else is on the wire.

use super::{GRANT, SECRET, World, big, body, reserved};
use crate::support::session;
use bxcore::code::Code;
use bxcore::id::ModelCallId;
use bxcore::label::Label;
use bxcore::wire::provider::ProviderCall;
use bxkit::rpc::event_channel;
use bxtest::provider::{Answer, StreamEnd, event};
use bytes::Bytes;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[tokio::test]
async fn the_body_on_the_wire_is_the_payload_byte_for_byte() {
    let world = World::new("", GRANT, |_, _| Answer::streams("Yes.", 10, 2)).await;
    let texts = [
        "plain".to_owned(),
        "ü \u{1F600} \u{0} \u{7} \u{feff}\r\n\t\"\\".to_owned(),
        "x".repeat(200_000),
    ];
    // Spelled in its own way: nothing writes it anew.
    let odd = format!(" {}\n", body("odd").replacen(':', " : ", 3));
    let mut sent: Vec<String> = texts.iter().map(|text| body(text)).collect();
    sent.push(odd);
    for (number, body) in (1..).zip(&sent) {
        let streamed = world.lead(number, body).await.unwrap();
        streamed.end.unwrap();
    }
    let seen = world.provider.seen();
    let (home, records) = world.finish().await;
    let payloads = home.home.audit_dir().join("payloads");
    let intents = records.iter().filter(|record| record["kind"] == "intent");
    for ((intent, seen), sent) in intents.zip(&seen).zip(&sent) {
        assert_eq!(seen.body, sent.as_bytes());
        let file = payloads.join(intent["body_sha256"].as_str().unwrap());
        assert_eq!(std::fs::read(file).unwrap(), seen.body);
        assert_eq!(seen.line(), "POST /v1/chat HTTP/1.1");
        let mut names: Vec<String> = seen.headers().into_iter().map(|(name, _)| name).collect();
        names.sort_unstable();
        let expect = [
            "accept",
            "authorization",
            "connection",
            "content-length",
            "content-type",
            "host",
            "user-agent",
        ];
        assert_eq!(names, expect);
        let bearer = format!("Bearer {SECRET}");
        let holds = seen
            .headers()
            .into_iter()
            .filter(|(_, value)| *value == bearer);
        assert_eq!(holds.count(), 1);
    }
    assert_eq!(seen.len(), sent.len());
}

#[tokio::test]
async fn the_intent_is_on_disk_before_the_first_byte_leaves() {
    let folder = Arc::new(std::sync::OnceLock::<std::path::PathBuf>::new());
    let audit = Arc::clone(&folder);
    let world = World::new("", GRANT, move |_, seen| {
        let audit = audit.get().unwrap();
        let log = std::fs::read_to_string(audit.join("000001.jsonl")).unwrap();
        let hash = bxcore::audit::sha256_hex(&seen.body);
        let intents = log.lines().filter(|line| {
            let record: Value = serde_json::from_str(line).unwrap();
            record["kind"] == "intent" && record["body_sha256"] == hash.as_str()
        });
        let kept = std::fs::read(audit.join("payloads").join(&hash)).unwrap();
        let is_there = intents.count() == 1 && kept == seen.body;
        Answer::streams(if is_there { "there" } else { "missing" }, 10, 2)
    })
    .await;
    folder.set(world.home.home.audit_dir()).unwrap();
    assert_eq!(world.lead(1, &body("a")).await.unwrap().text, "there");
    world.records().await;
}

/// Events are passed on one by one, and not when all of them are there.
#[tokio::test]
async fn an_answer_passes_while_it_comes_and_a_reader_that_leaves_ends_the_call() {
    let world = World::new("", GRANT, |_, _| {
        let hello = event(&json!({"choices": [{"delta": {"content": "Hello"}}]}));
        Answer::Stream(vec![hello], StreamEnd::Silence)
    })
    .await;
    let mut stream = begin(&world, 1).await;
    let first = stream.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(String::from_utf8_lossy(&first).contains("Hello"));
    drop(stream);
    // It ends, and with all that was set aside: nobody can tell what it used.
    let records = world.records().await;
    assert_eq!(records[1]["outcome"], "failed");
    assert_eq!(records[1]["reason"], Code::Stopped.as_str());
    assert_eq!(records[1]["body"], "Hello");
    assert_eq!(records[1]["charge"]["usd"], reserved().micros());
}

/// Begins a call and gives its answer's stream.
async fn begin(world: &World, call: u64) -> axum::body::Body {
    let call = ProviderCall {
        session: session("s"),
        call: ModelCallId(call),
        label: Label::BOTTOM,
        reserved: reserved(),
    };
    let (out, response) = event_channel();
    let sent = Bytes::from(body("a"));
    let led = world.broker.broker.lead(big(), call, sent, out);
    led.await.unwrap();
    response.into_body()
}

/// No more calls are sent at once than the owner says; the next one waits for its turn.
#[tokio::test]
async fn a_call_waits_where_as_many_are_under_way_as_may_be() {
    let let_go = Arc::new(AtomicBool::new(false));
    let seen_free = Arc::clone(&let_go);
    let world = World::new("max_concurrency = 1", GRANT, move |number, _| {
        let hello = event(&json!({"choices": [{"delta": {"content": "Hello"}}]}));
        match number {
            0 => Answer::Stream(vec![hello], StreamEnd::Silence),
            _ if seen_free.load(Ordering::SeqCst) => Answer::streams("free", 10, 2),
            _ => Answer::streams("too early", 10, 2),
        }
    })
    .await;
    let mut first = begin(&world, 1).await;
    first.frame().await.unwrap().unwrap();
    let second = begin(&world, 2).await;
    // Both are decided and on record, and one is sent.
    assert_eq!(world.provider.connections(), 1);
    let_go.store(true, Ordering::SeqCst);
    drop(first);
    let whole = second.collect().await.unwrap().to_bytes();
    assert_eq!(super::read(&whole).text, "free");
    assert_eq!(world.records().await.len(), 4);
}
