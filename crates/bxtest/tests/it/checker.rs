//! The checker: each kind of breach is caught, and a correct conversation passes.

use bxtest::contract::{BreachKind, Checker, Dialect, Openers, Rules};
use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::client::{opener, request, with};

fn kinds(rules: Rules, bodies: &[Value]) -> Vec<(usize, BreachKind)> {
    let mut checker = Checker::new(rules);
    let mut found = Vec::new();
    for (seq, body) in bodies.iter().enumerate() {
        let observation = checker.observe(seq, Bytes::from(body.to_string()));
        found.extend(
            observation
                .breaches
                .iter()
                .map(|breach| (breach.seq, breach.kind)),
        );
    }
    found
}

fn strict() -> Rules {
    Rules::strict(Dialect::LlamaServer)
}

#[track_caller]
fn check_body(body: &str, expect: &[BreachKind]) {
    let observation = Checker::new(strict()).observe(0, Bytes::from(body.to_owned()));
    let found: Vec<_> = observation
        .breaches
        .iter()
        .map(|breach| breach.kind)
        .collect();
    assert_eq!(found, expect, "{:?}", observation.breaches);
}

#[track_caller]
fn check_field(name: &str, value: Value, expect: &[BreachKind]) {
    let mut body = request(&opener("hi"));
    body[name] = value;
    check_body(&body.to_string(), expect);
}

#[track_caller]
fn check_messages(more: &[Value], expect: &[BreachKind]) {
    check_body(&request(&with(&opener("hi"), more)).to_string(), expect);
}

fn clock_tool() -> Value {
    json!([{"type": "function", "function": {"name": "clock", "parameters": {"type": "object"}}}])
}

fn call(id: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": "clock", "arguments": "{}"}})
}

fn calls(ids: &[&str]) -> Value {
    let calls: Vec<Value> = ids.iter().map(|id| call(id)).collect();
    json!({"role": "assistant", "content": null, "tool_calls": calls})
}

fn result(id: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": "noon"})
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn answer(text: &str) -> Value {
    json!({"role": "assistant", "content": text})
}

#[test]
fn a_body_is_one_object_with_unique_keys() {
    check_body("{", &[BreachKind::NotJson]);
    check_body("[]", &[BreachKind::NotJson]);
    check_body("{\"messages\":[]} {}", &[BreachKind::NotJson]);
    check_body(
        "{\"messages\":[],\"messages\":[]}",
        &[BreachKind::DuplicateKey],
    );
    check_body("{\"model\":\"m\"}", &[BreachKind::FieldAbsent]);
    check_body("{\"messages\":{}}", &[BreachKind::Messages]);
}

#[test]
fn fields_are_known_and_in_range() {
    for (name, value) in [
        ("n_discard", json!(-1)),
        ("lora", json!([{"id": 0, "scale": 1.0}])),
        ("json_schema", json!({})),
    ] {
        check_field(name, value, &[BreachKind::UnknownField]);
    }
    for (name, value) in [
        ("id_slot", json!(-1)),
        ("temperature", json!(-5)),
        ("temperature", json!("hot")),
        ("top_p", json!(1.5)),
        ("max_tokens", json!(0)),
        ("seed", json!(-1)),
        ("cache_prompt", json!(false)),
        ("tools", json!([])),
        ("tools", json!([{"type": "function"}])),
        ("response_format", json!({"type": "json_schema"})),
        ("response_format", json!({"type": "zzz"})),
        ("stream", json!("yes")),
        ("stop", json!([1])),
    ] {
        let mut expect = vec![BreachKind::FieldRange];
        if name == "stream" {
            expect.push(BreachKind::FieldRange); // `stream_options` then stands without a stream
        }
        check_field(name, value, &expect);
    }
    check_field("tool_choice", json!("auto"), &[BreachKind::FieldAbsent]);
    check_field("temperature", json!(0.7), &[]);
    check_field(
        "response_format",
        json!({"type": "json_schema", "json_schema": {"schema": {}}}),
        &[],
    );
}

#[test]
fn openai_knows_no_slots() {
    let mut body = request(&opener("hi"));
    let found = kinds(Rules::strict(Dialect::OpenAi), std::slice::from_ref(&body));
    assert_eq!(found, vec![(0, BreachKind::UnknownField); 3]);
    for name in ["id_slot", "cache_prompt", "return_progress"] {
        body.as_object_mut().unwrap().shift_remove(name);
    }
    assert_eq!(kinds(Rules::strict(Dialect::OpenAi), &[body]), []);
}

#[test]
fn messages_are_a_conversation() {
    check_messages(&[], &[]);
    check_messages(
        &[answer("yes")],
        &[BreachKind::Messages, BreachKind::Prefix],
    );
    let whole_turn = [
        calls(&["1", "2"]),
        result("1"),
        result("2"),
        answer("noon"),
        user("and?"),
    ];
    // A first request with answers in it is a breach of the prefix contract alone.
    check_messages(&whole_turn, &[BreachKind::Prefix]);
    let late_system = json!({"role": "system", "content": "late"});
    check_messages(&[late_system, user("x")], &[BreachKind::Messages]);
    check_messages(
        &[json!({"role": "wizard", "content": "x"}), user("x")],
        &[BreachKind::Messages],
    );
    check_messages(&[json!({"role": "user"})], &[BreachKind::Messages]);
    let odd = json!({"role": "user", "content": "x", "id": 7});
    check_messages(&[odd], &[BreachKind::Messages]);
}

#[test]
fn every_call_has_its_one_result() {
    let pairing = [BreachKind::Pairing, BreachKind::Prefix];
    let twice = [BreachKind::Pairing, BreachKind::Pairing, BreachKind::Prefix];
    check_messages(&[calls(&["1"]), user("x")], &pairing);
    check_messages(&[calls(&["1", "2"]), result("1")], &pairing);
    check_messages(&[calls(&["1", "2"]), result("2"), result("1")], &pairing);
    check_messages(&[calls(&["1"]), result("1"), result("1")], &pairing);
    check_messages(&[calls(&["1"]), result("7")], &twice);
    check_messages(&[calls(&["1", "1"]), result("1"), result("1")], &pairing);
    check_messages(&[result("1")], &[BreachKind::Pairing]);
}

#[test]
fn arguments_in_the_history_are_objects() {
    for arguments in ["{", "[]", "null", "", "\"x\""] {
        let mut message = calls(&["1"]);
        message["tool_calls"][0]["function"]["arguments"] = arguments.into();
        let expect = [BreachKind::Arguments, BreachKind::Prefix];
        check_messages(&[message, result("1")], &expect);
    }
}

/// Three requests of one turn, each of which extends the one before.
fn conversation(text: &str) -> Vec<Value> {
    let mut messages = opener(text);
    let mut bodies = Vec::new();
    for more in [
        vec![],
        vec![calls(&["1"]), result("1")],
        vec![answer("noon"), user("thanks")],
        vec![answer("bye"), user("again")],
    ] {
        messages = with(&messages, &more);
        let mut body = request(&messages);
        body["tools"] = clock_tool();
        bodies.push(body);
    }
    bodies
}

#[test]
fn a_conversation_that_grows_passes() {
    let mut bodies = conversation("hi");
    bodies[1]["tool_choice"] = "none".into();
    bodies[2]["response_format"] = json!({"type": "json_object"});
    bodies[2]["max_tokens"] = 64.into();
    bodies[3]["id_slot"] = 1.into();
    assert_eq!(kinds(strict(), &bodies), []);
}

#[test]
fn a_changed_byte_breaks_the_prefix() {
    let at = |request: usize, change: &dyn Fn(&mut Value)| {
        let mut bodies = conversation("hi");
        change(&mut bodies[request]);
        kinds(strict(), &bodies).into_iter().next()
    };
    let prefix = |request| Some((request, BreachKind::Prefix));
    assert_eq!(
        at(1, &|body| body["messages"][0]["content"] =
            "It is 12:01.".into()),
        prefix(1)
    );
    assert_eq!(
        at(2, &|body| body["messages"][3]["content"] =
            "noon, late".into()),
        prefix(2)
    );
    assert_eq!(
        at(3, &|body| body["messages"][4]["content"] = "Noon".into()),
        prefix(3)
    );
    let reordered = json!({"content": "thanks", "role": "user"});
    assert_eq!(
        at(3, &|body| body["messages"][5] = reordered.clone()),
        prefix(3)
    );
}

#[test]
fn whitespace_counts_as_bytes() {
    let mut checker = Checker::new(strict());
    let bodies = conversation("hi");
    assert!(
        checker
            .observe(0, Bytes::from(bodies[0].to_string()))
            .breaches
            .is_empty()
    );
    let spaced = bodies[1]
        .to_string()
        .replace("\"content\":\"hi\"", "\"content\": \"hi\"");
    let breaches = checker.observe(1, Bytes::from(spaced)).breaches;
    assert_eq!(breaches[0].kind, BreachKind::Prefix);
    assert!(
        breaches[0].detail.contains("leaves request 0"),
        "{breaches:?}"
    );
}

#[test]
fn frozen_fields_stay() {
    let found = |name: &str, value: Value| {
        let mut bodies = conversation("hi");
        bodies[2][name] = value;
        kinds(strict(), &bodies)
    };
    let frozen = vec![(2, BreachKind::Frozen)];
    assert_eq!(found("temperature", json!(0.1)), frozen);
    assert_eq!(found("model", json!("other")), frozen);
    assert_eq!(
        found("chat_template_kwargs", json!({"enable_thinking": false})),
        frozen
    );
    let mut tools = clock_tool();
    tools[0]["function"]["description"] = "Tells the time.".into();
    assert_eq!(found("tools", tools), frozen);
    let mut bodies = conversation("hi");
    bodies[2].as_object_mut().unwrap().shift_remove("tools");
    assert_eq!(kinds(strict(), &bodies), frozen);
}

#[test]
fn sessions_that_open_alike_are_told_apart() {
    let (left, mut right) = (conversation("hi"), conversation("hi"));
    for body in &mut right[1..] {
        body["messages"][3]["content"] = "midnight".into();
    }
    let bodies: Vec<Value> = left
        .into_iter()
        .zip(right)
        .flat_map(|(l, r)| [l, r])
        .collect();
    assert_eq!(kinds(strict(), &bodies), []);
}

#[test]
fn a_retry_is_no_second_session() {
    let mut bodies = conversation("hi");
    let forked = {
        let mut body = bodies[1].clone();
        body["messages"][3]["content"] = "midnight".into();
        body
    };
    bodies.insert(1, bodies[0].clone());
    bodies.push(forked);
    assert_eq!(
        kinds(strict(), &bodies),
        [],
        "a second session may have opened alike"
    );
    let distinct = Rules {
        openers: Openers::Distinct,
        ..strict()
    };
    assert_eq!(kinds(distinct, &bodies), [(5, BreachKind::Prefix)]);
    let mut checker = Checker::new(strict());
    let mut last = Vec::new();
    for (seq, body) in bodies.iter().enumerate() {
        last = checker.observe(seq, Bytes::from(body.to_string())).breaches;
        if seq == 0 {
            checker.cut_short(0);
        }
    }
    assert_eq!(
        last[0].kind,
        BreachKind::Prefix,
        "the first answer was never whole"
    );
}

#[test]
fn new_epochs_are_counted() {
    let bodies = [
        conversation("hi").pop().unwrap(),
        conversation("ho").pop().unwrap(),
    ];
    assert_eq!(kinds(strict(), &bodies).len(), 2);
    let rules = Rules {
        new_epochs: 1,
        ..strict()
    };
    assert_eq!(kinds(rules, &bodies), [(1, BreachKind::Prefix)]);
}

proptest! {
    /// Whatever is changed in a message already sent, the next request is a breach.
    #[test]
    fn any_rewritten_message_is_caught(
        texts in proptest::collection::vec("[a-z\"\\\\é\n]{1,12}", 2..8),
        at in any::<prop::sample::Index>(),
    ) {
        let mut messages = opener("hi");
        let mut checker = Checker::new(strict());
        let observe = |checker: &mut Checker, seq, messages: &Value| {
            checker.observe(seq, Bytes::from(request(messages).to_string())).breaches.len()
        };
        prop_assert_eq!(observe(&mut checker, 0, &messages), 0);
        for (seq, text) in texts.iter().enumerate() {
            messages = with(&messages, &[answer(text), user(text)]);
            prop_assert_eq!(observe(&mut checker, seq + 1, &messages), 0);
        }
        let index = at.index(messages.as_array().unwrap().len());
        let content = messages[index]["content"].as_str().unwrap().to_owned();
        messages[index]["content"] = format!("{content}.").into();
        messages = with(&messages, &[answer("x"), user("y")]);
        prop_assert_eq!(observe(&mut checker, texts.len() + 1, &messages), 1);
    }
}
