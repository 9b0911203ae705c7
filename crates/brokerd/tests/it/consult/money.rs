//! What it costs: set aside before, charged after, and never past the day's limit.

use super::{Elsewhere, RESERVE, ask, asking};
use bxcore::code::Code;
use bxcore::label::Label;
use bxcore::transcript::CallOutcome;
use bxcore::usage::UsageSource;
use bxcore::wire::brokerd::CallRequest;
use bxtest::provider::Answer;

#[tokio::test]
async fn what_the_service_counts_is_charged_by_the_prices() {
    let elsewhere = Elsewhere::new(|_| Answer::says("Yes.", 1000, 200));
    let started = elsewhere.start(Label::OWNER).await;
    let charge = ask(&started, 1, "why?").await.charge.unwrap();
    // 1000 at 3 dollars a million, and 200 at 15.
    assert_eq!(charge.usd.micros(), 3_000 + 3_000);
    assert_eq!(charge.source, UsageSource::Reported);
    assert_eq!(
        (charge.usage.prompt_tokens, charge.usage.completion_tokens),
        (1000, 200)
    );
    started.stop().await;
}

#[tokio::test]
async fn a_call_for_which_too_little_is_set_aside_is_not_made() {
    let elsewhere = Elsewhere::new(super::yes);
    let started = elsewhere.start(Label::OWNER).await;
    for (call, reserved) in [(1, None), (2, Some(0)), (3, Some(RESERVE - 1))] {
        let request = CallRequest {
            reserved: reserved.map(|micros| bxcore::money::MicroUsd::from_micros(micros).unwrap()),
            ..asking(call, "why?")
        };
        let result = started
            .broker
            .call(request)
            .await
            .unwrap()
            .result()
            .unwrap();
        assert_eq!(result.outcome, CallOutcome::Denied);
        assert_eq!(result.code, Some(Code::BudgetExhausted), "{reserved:?}");
    }
    assert_eq!(elsewhere.provider.connections(), 0);
    started.stop().await;
}

/// The day has 2 dollars and a question may cost 0.50. A service that says nothing of what it
/// counted is charged for all that was set aside.
#[tokio::test]
async fn the_days_limit_holds_over_restarts_and_for_many_at_once() {
    let silent = || {
        let mut value = bxtest::provider::completion("Yes.", 1, 1);
        value.as_object_mut().unwrap().remove("usage");
        Answer::Json(200, value)
    };
    let elsewhere = Elsewhere::new(move |_| silent());
    let started = elsewhere.start(Label::OWNER).await;
    let first = ask(&started, 1, "why?").await.charge.unwrap();
    assert_eq!(
        (first.usd.micros(), first.source),
        (RESERVE, UsageSource::Lost)
    );
    started.stop().await;

    let started = elsewhere.start(Label::OWNER.join(Label::BOTTOM)).await;
    let label = started.broker.authority(crate::support::session("s")).await;
    assert!(label.unwrap().label.untrusted, "the answer was untrusted");
    // The session is untrusted now, so others ask: sixteen at once, for what is left.
    let mut asking_at_once = Vec::new();
    for number in 0..16 {
        let id = format!("t{number}");
        started.register(&id, crate::support::owner()).await;
        let broker = started.broker.clone();
        let request = CallRequest {
            session: crate::support::session(&id),
            ..asking(1, "why?")
        };
        asking_at_once.push(tokio::spawn(async move {
            broker.call(request).await.unwrap().result().unwrap()
        }));
    }
    let mut made = 0;
    for asked in asking_at_once {
        let result = asked.await.unwrap();
        match result.outcome {
            CallOutcome::Ok => made += 1,
            _ => assert_eq!(
                result.code,
                Some(Code::BudgetExhausted),
                "{}",
                result.content
            ),
        }
    }
    assert_eq!(made, 3);
    assert_eq!(elsewhere.provider.connections(), 4);
    started.stop().await;
}
