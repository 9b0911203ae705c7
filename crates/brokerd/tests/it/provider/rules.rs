//! What the walk refuses before a byte leaves.

use super::{GRANT, SECRET, World, body, reserved};
use crate::support::{raise, session};
use bxcore::code::Code;
use bxcore::label::{Class, Label};
use bxcore::money::MicroUsd;
use bxcore::wire::brokerd::{ExplainRequest, Register};
use bxtest::provider::Answer;
use serde_json::{Value, json};

fn yes(_: usize, _: &bxtest::provider::Seen) -> Answer {
    Answer::streams("Yes.", 10, 2)
}

#[tokio::test]
async fn of_all_labels_only_the_public_ones_reach_a_provider() {
    for label in Label::ALL {
        let world = World::new("", GRANT, yes).await;
        world.broker.register("t", raise(label)).await;
        // What loopd claims is joined with what the ledger has.
        let led = world
            .lead_as("t", 1, Label::BOTTOM, reserved(), &body("a"))
            .await;
        let claimed = world.lead_as("s", 1, label, reserved(), &body("a")).await;
        let is_public = label.class == Class::Public;
        assert_eq!(
            (led.is_ok(), claimed.is_ok()),
            (is_public, is_public),
            "{label}"
        );
        for problem in [led.err(), claimed.err()].into_iter().flatten() {
            assert_eq!(problem.code, Code::TaintTooHigh, "{label}: {problem}");
            let hint = problem.hint.unwrap();
            assert!(hint.contains("--class public --backend big"), "{hint}");
        }
        let seen = if is_public { 2 } else { 0 };
        assert_eq!(world.provider.connections(), seen, "{label}");
    }
}

#[tokio::test]
async fn guardrails_approval_and_secrets_hold_as_for_tools() {
    let world = World::new("", GRANT, yes).await;
    for denied in ["provider:big", "egress", "spend"] {
        let register = Register {
            raise: Label::BOTTOM,
            parent: None,
            rules: bxcore::guardrails::ToolRules {
                deny: [denied.to_owned()].into(),
                ..Default::default()
            },
        };
        world.broker.register("t", register).await;
        let led = world
            .lead_as("t", 1, Label::BOTTOM, reserved(), &body("a"))
            .await;
        assert_eq!(led.unwrap_err().code, Code::DeniedByGuardrail, "{denied}");
    }
    for hidden in [SECRET.to_owned(), format!("a {SECRET} b")] {
        let problem = world.lead(1, &body(&hidden)).await.unwrap_err();
        assert_eq!(problem.code, Code::SecretInPayload);
        assert!(!problem.to_string().contains(SECRET), "{problem}");
    }
    assert_eq!(world.provider.connections(), 0);

    let asks = format!("{GRANT}approval = \"always\"\n");
    let world = World::new("", &asks, yes).await;
    let problem = world.lead(1, &body("a")).await.unwrap_err();
    assert_eq!(problem.code, Code::ApprovalUnroutable, "{problem}");
    assert_eq!(world.provider.connections(), 0);
}

#[tokio::test]
async fn only_fields_that_a_stranger_may_have_are_sent() {
    let world = World::new("", GRANT, yes).await;
    let good: Value = serde_json::from_str(&body("a")).unwrap();
    let with = |name: &str, value: Value| {
        let mut body = good.clone();
        body[name] = value;
        body.to_string()
    };
    let bodies = [
        with("id_slot", json!(0)),
        with("cache_prompt", json!(true)),
        with("return_progress", json!(true)),
        with("grammar", json!("root ::= \"a\"")),
        with("user", json!("owner@box")),
        with("metadata", json!({"a": "b"})),
        with("store", json!(true)),
        with("stream", json!(false)),
        with("model", json!("other")),
        with("max_tokens", json!(5000)),
        with("max_completion_tokens", json!(5000)),
        with("messages", json!([])),
        with(
            "messages",
            json!([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "file:///x"}}]}]),
        ),
        with("tools", json!([{"type": "web_search"}])),
        "{}".to_owned(),
        "[]".to_owned(),
        String::new(),
        format!("{good}{good}"),
        body("a").replacen('{', "{\"stream\":true,", 1),
    ];
    for body in &bodies {
        let problem = world.lead(1, body).await.unwrap_err();
        assert_eq!(problem.code, Code::InvalidArguments, "{body}: {problem}");
    }
    assert_eq!(world.provider.connections(), 0);
    world.lead(1, &good.to_string()).await.unwrap();
    let records = world.records().await;
    let denied = records.iter().filter(|record| record["kind"] == "deny");
    assert_eq!(denied.count(), bodies.len());
}

#[tokio::test]
async fn an_explanation_says_what_a_call_would_meet() {
    let world = World::new("", GRANT, yes).await;
    let explain = async |label: Label| {
        let request = ExplainRequest {
            tool: "provider:big".parse().unwrap(),
            session: Some(session("s")),
            label: Some(label),
            arguments: None,
        };
        world.broker.broker.explain(request).await.unwrap().denied
    };
    for label in Label::ALL {
        let expect = (label.class != Class::Public).then_some(Code::TaintTooHigh);
        assert_eq!(explain(label).await, expect, "{label}");
    }
    // It is no tool that a model could call, with whatever arguments.
    let called = world.broker.call("s", 1, "provider:big", &body("a")).await;
    assert_eq!(called.code, Some(Code::UnknownTool));
    let offered = world.broker.broker.tools(session("s")).await.unwrap();
    assert!(offered.iter().all(|tool| !tool.name.is_provider()));
    assert_eq!(world.provider.connections(), 0);
}

#[tokio::test]
async fn what_is_not_set_aside_is_not_spent() {
    let world = World::new("", GRANT, yes).await;
    // The longest answer alone costs 1000 tokens at 15 dollars a million.
    let least = 15_000;
    let short = MicroUsd::from_micros(least - 1).unwrap();
    let led = world
        .lead_as("s", 1, Label::BOTTOM, short, &body("a"))
        .await;
    assert_eq!(led.unwrap_err().code, Code::BudgetExhausted);
    assert_eq!(world.provider.connections(), 0);
    let enough = MicroUsd::from_micros(least).unwrap();
    let led = world
        .lead_as("s", 1, Label::BOTTOM, enough, &body("a"))
        .await;
    led.unwrap().end.unwrap();
}
