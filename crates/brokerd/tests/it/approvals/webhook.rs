//! The webhook: the owner is told that a call waits, with bytes that are on record, and whatever
//! becomes of that changes nothing for the call.

use super::{GRANT, add, approve, awaiting, ran, waits};
use crate::support::{Started, TestHome, owner};
use bxcore::transcript::CallOutcome;
use bxtest::provider::{Answer, Provider};
use serde_json::Value;

const SECRET: &str = "hook-canary-4711-Zq";

async fn start(test: &TestHome, url: &str) -> Started {
    test.put_secret("hook", SECRET);
    test.configure(&format!(
        "[approvals.webhook]\nurl = \"{url}\"\nsecret = \"hook\"\n\n{GRANT}"
    ));
    let started = test.start_with_outside();
    started.register("s", owner()).await;
    started
}

/// Waits for the notification's outcome on record; gives it with its intent.
async fn recorded(test: &TestHome) -> (Value, Value) {
    loop {
        let records = test.records();
        let of_hook = |kind: &str| {
            let found =
                |record: &&Value| record["kind"] == kind && record["tool"] == "approvals.webhook";
            records.iter().find(found).cloned()
        };
        if let (Some(intent), Some(outcome)) = (of_hook("intent"), of_hook("outcome")) {
            return (intent, outcome);
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn the_owner_is_told_with_exactly_what_is_on_record() {
    let hook = Provider::start(|_, _| Answer::Text(200, Vec::new(), b"ok".to_vec()));
    let test = TestHome::new();
    let started = start(&test, &hook.url("127.0.0.1", "/hook")).await;
    let asked = awaiting(&started, &add(1)).await;
    let (intent, outcome) = recorded(&test).await;
    assert_eq!(outcome["outcome"], "ok");
    let seen = hook.seen();
    assert_eq!(seen.len(), 1);
    assert_eq!(std::str::from_utf8(&seen[0].body).unwrap(), intent["body"]);
    let told: Value = serde_json::from_slice(&seen[0].body).unwrap();
    assert_eq!(told["approval"], asked.approval.as_str());
    assert!(
        !intent["body"].as_str().unwrap().contains("append"),
        "nothing of the call itself"
    );
    // The same question is told once, however often it is asked about.
    let waiting = waits(&started, &add(1));
    super::all_sent(&started).await;
    approve(&started, &asked).await;
    assert_eq!(waiting.await.unwrap().outcome, CallOutcome::Ok);
    assert_eq!(hook.seen().len(), 1);
    started.stop().await;
    let log: String = test
        .segments()
        .iter()
        .map(|segment| std::fs::read_to_string(segment).unwrap())
        .collect();
    assert!(!log.contains(SECRET));
    test.verify();
}

#[tokio::test]
async fn a_notification_that_fails_changes_nothing() {
    let refusing = Provider::start(|_, _| Answer::Text(500, Vec::new(), Vec::new()));
    let closed = "http://127.0.0.1:9/hook".to_owned();
    for url in [refusing.url("127.0.0.1", "/hook"), closed] {
        let test = TestHome::new();
        let started = start(&test, &url).await;
        let asked = awaiting(&started, &add(1)).await;
        let (_, outcome) = recorded(&test).await;
        assert_eq!(outcome["outcome"], "failed", "{url}");
        let waiting = waits(&started, &add(1));
        approve(&started, &asked).await;
        assert_eq!(waiting.await.unwrap().outcome, CallOutcome::Ok);
        assert_eq!(ran(&test), "1\n");
        started.stop().await;
        test.verify();
    }
    assert_eq!(refusing.seen().len(), 1, "told once, and not again");
}
