//! What scripted replies look like on the wire, whole and broken.

use bxtest::contract::BreachKind;
use bxtest::llama::{
    Call, Finish, Garbage, Gate, Kind, LlamaServer, Order, Outcome, Reply, Script,
};
use insta::assert_snapshot;
use serde_json::{Value, json};
use std::time::Duration;

use crate::client::{Answer, chat, open, opener, post, request, with};

async fn answered(reply: Reply) -> Answer {
    let server = LlamaServer::builder().reply(reply).start().await;
    post(&server, &request(&opener("hi"))).await
}

async fn answered_whole(reply: Reply) -> Answer {
    let server = LlamaServer::builder().reply(reply).start().await;
    post(&server, &whole(&opener("hi"))).await
}

fn whole(messages: &Value) -> Value {
    json!({"model": "scripted", "messages": messages, "id_slot": 0})
}

#[tokio::test]
async fn a_stream_has_the_real_shape() {
    let answer = answered(Reply::text("It is noon.").chunk_bytes(6)).await;
    assert_eq!(answer.headers["content-type"], "text/event-stream");
    assert_snapshot!(String::from_utf8(answer.body).unwrap().replace("\n\n", "\n"), @r#"
    data: {"choices":[{"finish_reason":null,"index":0,"delta":{"role":"assistant","content":null}}],"created":1796000000,"id":"chatcmpl-0","model":"scripted","system_fingerprint":"b0-scripted","object":"chat.completion.chunk","prompt_progress":{"total":17,"cache":0,"processed":0,"time_ms":0}}
    data: {"choices":[{"finish_reason":null,"index":0,"delta":{"role":"assistant","content":null}}],"created":1796000000,"id":"chatcmpl-0","model":"scripted","system_fingerprint":"b0-scripted","object":"chat.completion.chunk","prompt_progress":{"total":17,"cache":0,"processed":17,"time_ms":0}}
    data: {"choices":[{"finish_reason":null,"index":0,"delta":{"role":"assistant","content":null}}],"created":1796000000,"id":"chatcmpl-0","model":"scripted","system_fingerprint":"b0-scripted","object":"chat.completion.chunk"}
    data: {"choices":[{"finish_reason":null,"index":0,"delta":{"content":"It is "}}],"created":1796000000,"id":"chatcmpl-0","model":"scripted","system_fingerprint":"b0-scripted","object":"chat.completion.chunk"}
    data: {"choices":[{"finish_reason":null,"index":0,"delta":{"content":"noon."}}],"created":1796000000,"id":"chatcmpl-0","model":"scripted","system_fingerprint":"b0-scripted","object":"chat.completion.chunk"}
    data: {"choices":[{"finish_reason":"stop","index":0,"delta":{}}],"created":1796000000,"id":"chatcmpl-0","model":"scripted","system_fingerprint":"b0-scripted","object":"chat.completion.chunk"}
    data: {"choices":[],"created":1796000000,"id":"chatcmpl-0","model":"scripted","system_fingerprint":"b0-scripted","object":"chat.completion.chunk","usage":{"completion_tokens":3,"prompt_tokens":17,"total_tokens":20,"prompt_tokens_details":{"cached_tokens":0}},"timings":{"cache_n":0,"prompt_n":17,"prompt_ms":0.0,"prompt_per_token_ms":0.0,"prompt_per_second":0.0,"predicted_n":3,"predicted_ms":0.0,"predicted_per_token_ms":0.0,"predicted_per_second":0.0}}
    data: [DONE]
    "#);
}

#[tokio::test]
async fn without_a_stream_one_document_comes() {
    let answer = answered_whole(Reply::text("It is noon.")).await;
    assert_snapshot!(answer.json(), @r#"{"choices":[{"finish_reason":"stop","index":0,"message":{"role":"assistant","content":"It is noon."}}],"created":1796000000,"model":"scripted","object":"chat.completion","usage":{"completion_tokens":3,"prompt_tokens":17,"total_tokens":20,"prompt_tokens_details":{"cached_tokens":0}},"id":"chatcmpl-0","system_fingerprint":"b0-scripted","timings":{"cache_n":0,"prompt_n":17,"prompt_ms":0.0,"prompt_per_token_ms":0.0,"prompt_per_second":0.0,"predicted_n":3,"predicted_ms":0.0,"predicted_per_token_ms":0.0,"predicted_per_second":0.0}}"#);
    let answer = answered_whole(Reply::tool_call("clock", json!({}))).await;
    assert_snapshot!(answer.json()["choices"], @r#"[{"finish_reason":"tool_calls","index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"type":"function","function":{"name":"clock","arguments":"{}"},"id":"call-0-0"}]}}]"#);
}

#[tokio::test]
async fn tool_calls_come_in_pieces() {
    let calls = [
        ("clock", json!({})),
        ("find_tool", json!({"query": "files"})),
    ];
    let answer = answered(Reply::tool_calls(calls).reasoning("Hm.").chunk_bytes(9)).await;
    let deltas: Vec<String> = answer
        .events()
        .iter()
        .filter(|event| event.get("prompt_progress").is_none())
        .map(|event| event["choices"][0].to_string())
        .collect();
    assert_snapshot!(deltas.join("\n"), @r#"
    {"finish_reason":null,"index":0,"delta":{"role":"assistant","content":null}}
    {"finish_reason":null,"index":0,"delta":{"reasoning_content":"Hm."}}
    {"finish_reason":null,"index":0,"delta":{"tool_calls":[{"index":0,"id":"call-0-0","type":"function","function":{"name":"clock","arguments":"{"}}]}}
    {"finish_reason":null,"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"}"}}]}}
    {"finish_reason":null,"index":0,"delta":{"tool_calls":[{"index":1,"id":"call-0-1","type":"function","function":{"name":"find_tool","arguments":"{"}}]}}
    {"finish_reason":null,"index":0,"delta":{"tool_calls":[{"index":1,"function":{"arguments":"\"query\":\""}}]}}
    {"finish_reason":null,"index":0,"delta":{"tool_calls":[{"index":1,"function":{"arguments":"files\"}"}}]}}
    {"finish_reason":"tool_calls","index":0,"delta":{}}
    null
    "#);
}

#[tokio::test]
async fn an_openai_server_sends_no_timings() {
    let server = LlamaServer::builder()
        .kind(Kind::OpenAi)
        .reply("a")
        .reply("b")
        .start()
        .await;
    let body = |messages: &Value| json!({"model": "scripted", "messages": messages, "stream": true, "stream_options": {"include_usage": true}});
    let answer = post(&server, &body(&opener("hi"))).await;
    assert!(
        answer
            .events()
            .iter()
            .all(|event| event.get("timings").is_none())
    );
    let more = [
        json!({"role": "assistant", "content": "a"}),
        json!({"role": "user", "content": "on"}),
    ];
    let answer = post(&server, &body(&with(&opener("hi"), &more))).await;
    let cached =
        answer.events().last().unwrap()["usage"]["prompt_tokens_details"]["cached_tokens"].clone();
    assert!(cached.as_u64().unwrap() > 10, "{cached}");
}

#[tokio::test]
async fn finishes_and_limits() {
    let finish = |answer: &Answer| {
        answer.events().iter().rev().nth(1).unwrap()["choices"][0]["finish_reason"].clone()
    };
    assert_eq!(
        finish(&answered(Reply::text("hi").finish(Finish::Length)).await),
        "length"
    );
    assert_eq!(finish(&answered(Reply::text("")).await), "stop");
    let server = LlamaServer::builder()
        .reply("twelve bytes and more")
        .start()
        .await;
    let mut body = request(&opener("hi"));
    body["max_tokens"] = 3.into();
    let answer = post(&server, &body).await;
    assert_eq!(
        (answer.joined("content").as_str(), finish(&answer)),
        ("twelve bytes", "length".into())
    );
}

#[tokio::test]
async fn http_errors_look_like_the_servers() {
    for (reply, status, expect) in [
        (Reply::rate_limited(7), 429, "rate_limit_error"),
        (Reply::loading(), 503, "unavailable_error"),
        (Reply::unauthorized(), 401, "authentication_error"),
        (Reply::server_error(), 500, "server_error"),
        (
            Reply::context_exceeded(9031, 8192),
            400,
            "exceed_context_size_error",
        ),
    ] {
        let server = LlamaServer::builder().reply(reply).start().await;
        let answer = post(&server, &request(&opener("hi"))).await;
        assert_eq!(
            (answer.status, &answer.json()["error"]["type"]),
            (status, &expect.into())
        );
        assert_eq!(server.requests()[0].outcome, Outcome::Status(status));
        assert_eq!(server.counts().completed, 0);
    }
    let answer = answered(Reply::rate_limited(7)).await;
    assert_eq!(answer.headers["retry-after"], "7");
}

#[tokio::test]
async fn a_prompt_that_does_not_fit_is_refused() {
    let server = LlamaServer::builder()
        .context_tokens(64)
        .reply("hi")
        .start()
        .await;
    let answer = post(&server, &request(&opener(&"long ".repeat(100)))).await;
    assert_eq!(answer.status, 400);
    assert_eq!(answer.json()["error"]["n_ctx"], 64);
}

#[tokio::test]
async fn cuts_break_the_connection() {
    let answer = answered(
        Reply::text("It is noon.")
            .chunk_bytes(3)
            .cut_after_chunks(3),
    )
    .await;
    assert_eq!(
        (answer.joined("content").as_str(), answer.whole),
        ("It is ", false)
    );
    let answer = answered(Reply::text("It is noon.").cut_after_bytes(40)).await;
    assert_eq!((answer.body.len(), answer.whole), (40, false));
    let server = LlamaServer::builder().reply(Reply::hang_up()).start().await;
    let error = open(&server, chat(request(&opener("hi")).to_string()))
        .await
        .unwrap_err();
    assert!(error.is_incomplete_message(), "{error}");
    assert_eq!(server.requests()[0].outcome, Outcome::CutByScript);
}

#[tokio::test]
async fn frames_may_be_cut_anywhere() {
    let answer = answered(Reply::text("Grüße, 你好").transport_bytes(1)).await;
    assert_eq!(answer.joined("content"), "Grüße, 你好");
}

#[tokio::test]
async fn a_stall_lasts_until_it_is_released() {
    let gate = Gate::new();
    let server = LlamaServer::builder()
        .reply(Reply::stall_until(&gate))
        .start()
        .await;
    let body = request(&opener("hi"));
    let pending = post(&server, &body);
    tokio::pin!(pending);
    tokio::select! {
        _ = &mut pending => panic!("answered before the release"),
        () = gate.arrived(1) => {}
    }
    assert_eq!(server.counts().running, 1);
    gate.release(1);
    assert!(pending.await.whole);
}

#[tokio::test]
async fn chunks_may_be_let_through_one_by_one() {
    let gate = Gate::new();
    let server = LlamaServer::builder()
        .reply(Reply::text("abcd").chunk_bytes(1).gated(&gate))
        .start()
        .await;
    let body = request(&opener("hi"));
    let pending = post(&server, &body);
    tokio::pin!(pending);
    for count in 1..=4 {
        tokio::select! {
            _ = &mut pending => panic!("answered before the release"),
            () = gate.arrived(count) => gate.release(1),
        }
    }
    assert_eq!(pending.await.joined("content"), "abcd");
}

#[tokio::test]
async fn garbage_is_garbage() {
    for garbage in Garbage::ALL {
        for stream in [true, false] {
            let server = LlamaServer::builder()
                .reply(Reply::garbage(garbage))
                .start()
                .await;
            let body = if stream {
                request(&opener("hi"))
            } else {
                whole(&opener("hi"))
            };
            let response = open(&server, chat(body.to_string())).await.unwrap();
            assert_eq!(response.status(), 200, "{garbage:?}");
            let endless = matches!(garbage, Garbage::Endless | Garbage::EndlessLine);
            let limit = if endless { 1 << 20 } else { usize::MAX };
            let bytes = read_up_to(response, limit).await;
            assert!(
                !bytes.is_empty() && (!endless || bytes.len() >= limit),
                "{garbage:?}"
            );
            let text = std::str::from_utf8(&bytes);
            assert_eq!(
                text.is_err(),
                garbage == Garbage::InvalidUtf8,
                "{garbage:?}"
            );
            if endless && stream {
                server
                    .until("the client's leave is noticed", |server| {
                        server.counts().running == 0
                    })
                    .await;
                assert_eq!(server.requests()[0].outcome, Outcome::ClosedByClient);
            }
        }
    }
}

async fn read_up_to(response: hyper::Response<hyper::body::Incoming>, limit: usize) -> Vec<u8> {
    use http_body_util::BodyExt;
    let mut incoming = response.into_body();
    let mut bytes = Vec::new();
    while let Some(frame) = incoming.frame().await {
        bytes.extend_from_slice(&frame.unwrap().into_data().unwrap());
        if bytes.len() >= limit {
            break;
        }
    }
    bytes
}

#[tokio::test]
async fn replies_come_from_the_queue_then_from_the_closure() {
    let server = LlamaServer::builder()
        .reply("queued")
        .respond(|request| Reply::text(format!("echo {}", request.last_text())))
        .start()
        .await;
    assert_eq!(
        post(&server, &request(&opener("a")))
            .await
            .joined("content"),
        "queued"
    );
    assert_eq!(
        post(&server, &request(&opener("b")))
            .await
            .joined("content"),
        "echo b"
    );
    server.push("pushed");
    assert_eq!(
        post(&server, &request(&opener("c")))
            .await
            .joined("content"),
        "pushed"
    );
    let recorded = server.requests();
    assert_eq!(recorded.len(), 3);
    assert_eq!(
        &recorded[1].request.raw()[..],
        request(&opener("b")).to_string().as_bytes()
    );
}

#[tokio::test]
async fn an_unscripted_request_is_a_breach() {
    let server = LlamaServer::builder().start().await;
    assert_eq!(post(&server, &request(&opener("a"))).await.status, 400);
    assert_eq!(server.take_breaches()[0].kind, BreachKind::Unscripted);
}

#[tokio::test]
async fn a_dropped_server_panics_on_a_breach() {
    let server = LlamaServer::builder().reply("x").start().await;
    let mut body = request(&opener("a"));
    body["n_discard"] = (-1).into();
    let answer = post(&server, &body).await;
    assert!(
        answer.json()["error"]["message"]
            .as_str()
            .unwrap()
            .contains("n_discard")
    );
    let dropped = std::thread::spawn(move || drop(server)).join();
    let message = dropped.unwrap_err().downcast::<String>().unwrap();
    assert!(message.contains("UnknownField: `n_discard`"), "{message}");
}

#[tokio::test]
async fn a_script_file_answers_each_turn_alike() {
    let text = "{\"tool_calls\":[{\"name\":\"clock\"}]}\n\n{\"text\":\"done\",\"delay_ms\":1}\n";
    let script = Script::parse(text, Order::Turn).unwrap();
    let server = LlamaServer::builder().script(script).start().await;
    let calls = post(&server, &request(&opener("a"))).await;
    let id = &calls.events()[3]["choices"][0]["delta"]["tool_calls"][0]["id"];
    let function = json!({"name": "clock", "arguments": "{}"});
    let more = [
        json!({"role": "assistant", "content": null, "tool_calls": [{"id": id, "type": "function", "function": function}]}),
        json!({"role": "tool", "tool_call_id": id, "content": "noon"}),
    ];
    let done = post(&server, &request(&with(&opener("a"), &more))).await;
    assert_eq!(done.joined("content"), "done");
    assert!(
        Script::parse("{\"txt\":1}", Order::Turn)
            .unwrap_err()
            .to_string()
            .contains("line 1")
    );
}

#[tokio::test]
async fn a_call_may_carry_any_arguments() {
    let call = Call {
        id: "x".to_owned(),
        name: "clock".to_owned(),
        arguments: "not json".to_owned(),
    };
    let answer = answered_whole(Reply::raw_calls([call]).after(Duration::from_millis(1))).await;
    let function = &answer.json()["choices"][0]["message"]["tool_calls"][0]["function"];
    assert_eq!(function["arguments"], "not json");
}
