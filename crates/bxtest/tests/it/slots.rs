//! The simulated slots: their caches, who is at work, and what a client that leaves sets off.

use bxtest::contract::BreachKind;
use bxtest::llama::{Gate, Kind, LlamaServer, Outcome, Reply};
use serde_json::{Value, json};
use std::time::Duration;

use crate::client::{Answer, chat, get, open, opener, post, read, request, with};

fn on_slot(slot: usize, messages: &Value) -> Value {
    let mut body = request(messages);
    body["id_slot"] = slot.into();
    body
}

fn timing(answer: &Answer, name: &str) -> u64 {
    answer.events().last().unwrap()["timings"][name]
        .as_u64()
        .unwrap()
}

fn total(answer: &Answer) -> u64 {
    answer.events().last().unwrap()["usage"]["total_tokens"]
        .as_u64()
        .unwrap()
}

fn answered(messages: &Value, text: &str) -> Value {
    with(
        messages,
        &[
            json!({"role": "assistant", "content": text}),
            json!({"role": "user", "content": "go on"}),
        ],
    )
}

/// A session on slot 0 before and after another request on slot 2; gives previous total and `cache_n`.
async fn after_a_child(server: &LlamaServer) -> (u64, u64) {
    let first = opener(&"parent ".repeat(100));
    let before = post(server, &on_slot(0, &first)).await;
    assert_eq!(timing(&before, "cache_n"), 0);
    post(server, &on_slot(2, &opener("child"))).await;
    let after = post(server, &on_slot(0, &answered(&first, "fine"))).await;
    (total(&before), timing(&after, "cache_n"))
}

#[tokio::test]
async fn a_slot_keeps_its_prompt_and_its_answer() {
    let server = LlamaServer::builder()
        .respond(|_| Reply::text("fine"))
        .start()
        .await;
    let (total, cached) = after_a_child(&server).await;
    assert!(
        cached + 16 >= total && cached <= total,
        "{cached} of {total}"
    );
}

#[tokio::test]
async fn slots_that_share_a_cache_lose_it() {
    let server = LlamaServer::builder()
        .cache_idle_slots(true)
        .respond(|_| Reply::text("fine"))
        .start()
        .await;
    let (_, cached) = after_a_child(&server).await;
    assert_eq!(cached, 0);
}

#[tokio::test]
async fn a_fully_cached_prompt_still_reads_one_token() {
    let server = LlamaServer::builder()
        .respond(|_| Reply::text("fine"))
        .start()
        .await;
    post(&server, &request(&opener("hi"))).await;
    let again = post(&server, &request(&opener("hi"))).await;
    assert_eq!(timing(&again, "prompt_n"), 1);
}

#[tokio::test]
async fn a_template_that_drops_reasoning_loses_the_answer() {
    let cached = async |keeps: bool| {
        let server = LlamaServer::builder()
            .keeps_reasoning(keeps)
            .respond(|_| Reply::text("fine").reasoning("a long thought ".repeat(40)))
            .start()
            .await;
        let first = post(&server, &request(&opener("hi"))).await;
        let mut messages = answered(&opener("hi"), "fine");
        messages[2]["reasoning_content"] = "a long thought ".repeat(40).into();
        let second = post(&server, &request(&messages)).await;
        (total(&first), timing(&second, "cache_n"))
    };
    let (total, kept) = cached(true).await;
    assert!(kept + 16 >= total, "{kept} of {total}");
    let (total, kept) = cached(false).await;
    assert!(kept + 100 < total, "{kept} of {total}");
}

#[tokio::test]
async fn a_template_may_rewrite_calls() {
    let cached = async |rewrites: bool| {
        let arguments = json!({"text": "x".repeat(400)});
        let reply = Reply::tool_call("clock", arguments.clone());
        let server = LlamaServer::builder()
            .rewrites_tool_calls(rewrites)
            .reply(reply)
            .reply("ok")
            .start()
            .await;
        let first = post(&server, &request(&opener("hi"))).await;
        let function = json!({"name": "clock", "arguments": arguments.to_string()});
        let call = json!({"id": "call-0-0", "type": "function", "function": function});
        let more = [
            json!({"role": "assistant", "content": null, "tool_calls": [call]}),
            json!({"role": "tool", "tool_call_id": "call-0-0", "content": "noon"}),
        ];
        let second = post(&server, &request(&with(&opener("hi"), &more))).await;
        (total(&first), timing(&second, "cache_n"))
    };
    let (total, kept) = cached(false).await;
    assert!(kept + 16 >= total, "{kept} of {total}");
    let (total, kept) = cached(true).await;
    assert!(kept + 90 < total, "{kept} of {total}");
}

#[tokio::test]
async fn slot_breaches_are_seen() {
    let gate = Gate::new();
    let server = LlamaServer::builder()
        .slots(3)
        .reply(Reply::text("a").hold(&gate))
        .start()
        .await;
    let body = on_slot(1, &opener("a"));
    let held = post(&server, &body);
    tokio::pin!(held);
    tokio::select! {
        _ = &mut held => panic!("answered before the release"),
        () = gate.arrived(1) => {}
    }
    let kinds = async |body: &Value| {
        assert_eq!(post(&server, body).await.status, 400);
        server
            .take_breaches()
            .iter()
            .map(|breach| breach.kind)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        kinds(&on_slot(1, &opener("b"))).await,
        [BreachKind::SlotBusy]
    );
    assert_eq!(
        kinds(&on_slot(3, &opener("b"))).await,
        [BreachKind::SlotMissing]
    );
    let mut none = request(&opener("b"));
    none.as_object_mut().unwrap().shift_remove("id_slot");
    assert_eq!(kinds(&none).await, [BreachKind::SlotAbsent]);
    let slots = get(&server, "/slots").await.json();
    let busy: Vec<_> = (0..3)
        .map(|slot| slots[slot]["is_processing"] == true)
        .collect();
    assert_eq!(busy, [false, true, false]);
    gate.open();
    assert!(held.await.whole);
    assert_eq!(server.busy_slots(), 0);
}

#[tokio::test]
async fn tolerated_breaches_are_served_as_the_real_server_would() {
    let gate = Gate::new();
    let server = LlamaServer::builder()
        .slots(2)
        .tolerate(BreachKind::SlotMissing)
        .tolerate(BreachKind::SlotBusy)
        .reply(Reply::text("a").hold(&gate))
        .reply("b")
        .start()
        .await;
    let (first, second) = (on_slot(99, &opener("a")), on_slot(0, &opener("b")));
    let second = async {
        gate.arrived(1).await;
        post(&server, &second).await
    };
    let release = async {
        server
            .until("the second waits", |server| server.counts().running == 2)
            .await;
        gate.open();
    };
    let (first, second, ()) = tokio::join!(post(&server, &first), second, release);
    assert_eq!(
        (first.joined("content"), second.joined("content")),
        ("a".into(), "b".into())
    );
    assert_eq!(server.requests()[0].served_on, Some(0));
    let tolerated: Vec<_> = server
        .tolerated()
        .iter()
        .map(|breach| breach.kind)
        .collect();
    assert_eq!(tolerated, [BreachKind::SlotMissing, BreachKind::SlotBusy]);
}

#[tokio::test]
async fn more_at_once_than_announced_is_a_breach() {
    let gate = Gate::new();
    let server = LlamaServer::builder()
        .kind(Kind::OpenAi)
        .max_concurrency(1)
        .reply(Reply::text("a").hold(&gate))
        .start()
        .await;
    let body = |text: &str| json!({"model": "scripted", "messages": opener(text), "stream": true});
    let first = body("a");
    let release = async {
        gate.arrived(1).await;
        assert_eq!(post(&server, &body("b")).await.status, 400);
        gate.open();
    };
    tokio::join!(post(&server, &first), release);
    assert_eq!(server.take_breaches()[0].kind, BreachKind::Concurrency);
    assert_eq!(server.counts().most_at_once, 2);
}

#[tokio::test]
async fn prefill_is_read_in_batches_and_reported() {
    let server = LlamaServer::builder()
        .prefill(64, Duration::from_millis(1))
        .reply("ok")
        .start()
        .await;
    let answer = post(&server, &request(&opener(&"long ".repeat(200)))).await;
    let progress: Vec<u64> = answer
        .events()
        .iter()
        .filter_map(|event| event["prompt_progress"]["processed"].as_u64())
        .collect();
    let prompt = total(&answer) - 1;
    assert_eq!(progress.first(), Some(&0));
    assert_eq!(progress.last(), Some(&prompt));
    assert!(
        progress.windows(2).all(|pair| pair[1] - pair[0] <= 64),
        "{progress:?}"
    );
}

/// Opens a stream, reads its head, goes away, and gives what the server made of it.
async fn leave(server: &LlamaServer, body: &Value) -> Outcome {
    let response = open(server, chat(body.to_string())).await.unwrap();
    drop(response);
    server
        .until("the request ends", |server| server.counts().running == 0)
        .await;
    server.requests()[0].outcome
}

#[tokio::test]
async fn a_client_that_leaves_while_generating_frees_the_slot() {
    let server = LlamaServer::builder()
        .reply(Reply::text("abc").stall_after_chunks(2))
        .start()
        .await;
    assert_eq!(
        leave(&server, &request(&opener("hi"))).await,
        Outcome::ClosedByClient
    );
    assert_eq!(server.counts().aborted, 1);
    server
        .until("the slot is free", |server| server.busy_slots() == 0)
        .await;
}

#[tokio::test]
async fn in_prefill_the_batch_runs_to_its_end_first() {
    let batch = Duration::from_millis(200);
    let began = std::time::Instant::now();
    let server = LlamaServer::builder()
        .prefill(64, batch)
        .reply("never")
        .start()
        .await;
    let body = request(&opener(&"long ".repeat(400)));
    let response = open(&server, chat(body.to_string())).await.unwrap();
    drop(response);
    server
        .until("the request ends", |server| server.counts().running == 0)
        .await;
    assert!(began.elapsed() >= batch, "a batch can't be interrupted");
    assert_eq!(server.requests()[0].outcome, Outcome::ClosedByClient);
}

#[tokio::test]
async fn without_progress_the_leave_is_noticed_at_the_first_token_only() {
    let server = LlamaServer::builder()
        .prefill(256, Duration::from_millis(200))
        .reply("x")
        .start()
        .await;
    let mut body = request(&opener(&"long ".repeat(1000)));
    body["return_progress"] = false.into();
    let request = chat(body.to_string());
    let opened = tokio::time::timeout(Duration::from_millis(50), open(&server, request)).await;
    assert!(opened.is_err(), "nothing is sent during the prefill");
    server
        .until("the prefill ends", |server| server.counts().running == 0)
        .await;
    let recorded = &server.requests()[0];
    assert_eq!(recorded.outcome, Outcome::ClosedByClient);
    // All of the prompt was read for nobody.
    server
        .until("the slot is free", |server| server.busy_slots() == 0)
        .await;
    let slots = get(&server, "/slots").await.json();
    assert!(slots[0]["n_prompt_tokens"].as_u64().unwrap() > 1000);
}

#[tokio::test]
async fn without_a_stream_the_leave_is_not_noticed() {
    let gate = Gate::new();
    let server = LlamaServer::builder()
        .reply(Reply::text("x").hold(&gate))
        .start()
        .await;
    let body = json!({"model": "scripted", "messages": opener("hi"), "id_slot": 0});
    let request = open(&server, chat(body.to_string()));
    tokio::select! {
        _ = request => panic!("answered before the release"),
        () = gate.arrived(1) => {}
    }
    assert_eq!(server.busy_slots(), 1);
    gate.open();
    server
        .until("the request ends", |server| server.counts().running == 0)
        .await;
    assert_eq!(server.requests()[0].outcome, Outcome::Completed);
}

#[tokio::test]
async fn a_killed_server_comes_back_cold() {
    let mut server = LlamaServer::builder()
        .reply(Reply::text("abc").chunk_bytes(1).stall_after_chunks(2))
        .reply("again")
        .start()
        .await;
    let body = request(&opener(&"long ".repeat(100)));
    let response = open(&server, chat(body.to_string())).await.unwrap();
    server.kill();
    assert!(!read(response).await.whole);
    assert_eq!(server.requests()[0].outcome, Outcome::ServerKilled);
    server.restart();
    let answer = post(&server, &body).await;
    assert_eq!(
        (
            answer.joined("content").as_str(),
            timing(&answer, "cache_n")
        ),
        ("again", 0)
    );
}

#[tokio::test]
async fn many_connections_cost_little() {
    const SESSIONS: usize = 256;
    let server = LlamaServer::builder()
        .slots(SESSIONS)
        .latency(Duration::from_millis(50))
        .respond(|_| Reply::text("fine"))
        .start()
        .await;
    let requests = (0..SESSIONS).map(|slot| on_slot(slot, &opener(&format!("session {slot}"))));
    let requests: Vec<Value> = requests.collect();
    let answers =
        futures_util::future::join_all(requests.iter().map(|body| post(&server, body))).await;
    assert!(
        answers
            .iter()
            .all(|answer| answer.joined("content") == "fine")
    );
    let counts = server.counts();
    assert_eq!(counts.completed, SESSIONS);
    assert!(counts.most_at_once > 1, "{counts:?}");
}
