//! What a call costs, and the day's limit.

use super::{GRANT, World, body, reserved};
use crate::support::session;
use bxcore::code::Code;
use bxcore::id::ModelCallId;
use bxcore::label::Label;
use bxcore::wire::provider::ProviderCall;
use bxkit::rpc::event_channel;
use bxtest::provider::{Answer, StreamEnd, event};
use bytes::Bytes;
use serde_json::json;
use std::time::Duration;

#[tokio::test]
async fn the_days_limit_counts_what_is_set_aside_and_what_was_spent() {
    // Two calls at half a dollar set aside fit; each costs 6.000 dollars a million, so next to nothing.
    let more = "daily_usd = \"0.5001\"";
    let world = World::new(more, GRANT, |_, _| Answer::streams("Yes.", 10, 2)).await;
    world.lead(1, &body("a")).await.unwrap().end.unwrap();
    assert_eq!(world.info().await.spent_today.micros(), 60);
    world.lead(2, &body("a")).await.unwrap().end.unwrap();
    // 120 micro-dollars and half a dollar do not fit into 0.5001.
    let problem = world.lead(3, &body("a")).await.unwrap_err();
    assert_eq!(problem.code, Code::BudgetExhausted);
    assert!(problem.hint.unwrap().contains("daily_usd"));
    assert_eq!(world.provider.connections(), 2);
}

#[tokio::test]
async fn what_was_in_the_cache_is_cheaper_and_absurd_counts_are_not_believed() {
    let usage = |prompt: u64, cached: u64, completion: u64| {
        let usage = json!({
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "prompt_tokens_details": {"cached_tokens": cached}
        });
        let choice = json!({"delta": {"content": "Yes."}, "finish_reason": "stop"});
        let whole = event(&json!({"choices": [choice], "usage": usage}));
        Answer::Stream(vec![whole, b"data: [DONE]\n\n".to_vec()], StreamEnd::Whole)
    };
    let cached = World::new("", GRANT, move |_, _| usage(1000, 800, 10)).await;
    cached.lead(1, &body("a")).await.unwrap().end.unwrap();
    // 200 at 3 dollars a million, 800 at 0.30 and 10 at 15.
    assert_eq!(cached.info().await.spent_today.micros(), 990);

    let absurd = World::new("", GRANT, move |_, _| usage(u64::MAX, 0, u64::MAX)).await;
    absurd.lead(1, &body("a")).await.unwrap().end.unwrap();
    assert_eq!(absurd.info().await.spent_today, reserved());
}

#[tokio::test]
async fn without_counts_all_that_was_set_aside_is_charged() {
    let world = World::new("", GRANT, |_, _| {
        let choice = json!({"delta": {"content": "Yes."}, "finish_reason": "stop"});
        Answer::Stream(vec![event(&json!({"choices": [choice]}))], StreamEnd::Whole)
    })
    .await;
    let sent = body("a");
    world.lead(1, &sent).await.unwrap().end.unwrap();
    assert_eq!(world.info().await.spent_today, reserved());
}

#[tokio::test]
async fn a_call_that_is_stopped_while_it_waits_for_its_turn_costs_nothing() {
    let more = "max_concurrency = 1";
    let world = World::new(more, GRANT, |_, _| Answer::Silence).await;
    let whole = reserved().micros();
    let lead = async |call| {
        let (out, response) = event_channel();
        let call = ProviderCall {
            session: session("s"),
            call: ModelCallId(call),
            label: Label::BOTTOM,
            reserved: reserved(),
        };
        let body = Bytes::from(body("a"));
        let led = world
            .broker
            .broker
            .lead(super::big(), call, body, out)
            .await;
        led.unwrap();
        response
    };
    let first = lead(1).await;
    while world.provider.connections() == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let second = lead(2).await;
    assert_eq!(world.info().await.spent_today.micros(), 2 * whole);
    drop(second);
    // The second has sent nothing; of the first nobody can tell, so it is charged whole.
    while world.info().await.spent_today.micros() != whole {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(first);
    assert_eq!(world.provider.connections(), 1);
    let records = world.records().await;
    let charges: Vec<_> = records
        .iter()
        .filter(|record| record["kind"] == "outcome")
        .map(|record| record["charge"]["usd"].clone())
        .collect();
    assert_eq!(charges, [json!(0), json!(whole)]);
}
