//! Approvals through the broker: nothing runs that was not shown, nothing runs twice, and whoever
//! can't be asked has not agreed.

mod bindings;
mod ends;
mod webhook;

use crate::support::{Started, TestHome, owner, request};
use bxcore::code::Code;
use bxcore::problem::Problem;
use bxcore::transcript::CallOutcome;
use bxcore::wire::approval::{Answer, Approval, ApprovalState, Awaiting, Said};
use bxcore::wire::brokerd::{CallAnswer, CallRequest, CallResult};
use serde_json::json;
use std::time::Duration;

const GRANT: &str =
    "[[grant]]\ntool = \"write_file\"\nmax_taint = \"private\"\napproval = \"always\"\n";

/// A home where a file may be written once the owner agrees.
fn asking_home() -> TestHome {
    let test = TestHome::new();
    test.configure(GRANT);
    test
}

async fn start(test: &TestHome) -> Started {
    let started = test.start();
    started.register("s", owner()).await;
    started
}

/// A call that adds a line to a file: how often it ran can be counted.
fn add(call: u64) -> CallRequest {
    let arguments = json!({"path": "log", "content": format!("{call}\n"), "mode": "append"});
    request("s", call, "write_file", &arguments.to_string())
}

fn ran(test: &TestHome) -> String {
    std::fs::read_to_string(test.workspace("s").join("log")).unwrap_or_default()
}

async fn awaiting(started: &Started, request: &CallRequest) -> Awaiting {
    match started.broker.call(request.clone()).await.unwrap() {
        CallAnswer::Awaiting(awaiting) => awaiting,
        CallAnswer::Ended(result) => panic!("it did not wait: {result:?}"),
    }
}

async fn result(started: &Started, request: &CallRequest) -> CallResult {
    let answer = started.broker.call(request.clone()).await.unwrap();
    answer.result().expect("it waits")
}

async fn shown(started: &Started, awaiting: &Awaiting) -> Approval {
    started
        .broker
        .approval(awaiting.approval.clone())
        .await
        .unwrap()
}

/// What the owner who saw this says of it.
async fn say(started: &Started, said: Said, seen: &Approval) -> Result<Approval, Problem> {
    let answer = Answer {
        said,
        shown_sha256: seen.shown_sha256.clone(),
    };
    started.broker.answer(seen.id.clone(), answer).await
}

async fn approve(started: &Started, awaiting: &Awaiting) -> Approval {
    let seen = shown(started, awaiting).await;
    say(started, Said::Approve, &seen).await.unwrap()
}

/// Waits, with the same request, for the owner. As loopd does, it asks again where it is told that the
/// call waits still: the answer may come in the same moment as the request.
fn waits(started: &Started, request: &CallRequest) -> tokio::task::JoinHandle<CallResult> {
    let (broker, request) = (started.broker.clone(), request.clone());
    tokio::spawn(async move {
        loop {
            if let Some(result) = broker.call(request.clone()).await.unwrap().result() {
                return result;
            }
        }
    })
}

/// Waits until everything that was spawned is with the broker.
async fn all_sent(started: &Started) {
    // One thread: whatever can run does so in between.
    for _ in 0..16 {
        tokio::task::yield_now().await;
    }
    started.broker.audit_status().await.unwrap();
}

#[tokio::test]
async fn a_call_runs_once_the_owner_has_seen_it_and_agreed() {
    let test = asking_home();
    let started = start(&test).await;
    let asked = awaiting(&started, &add(1)).await;
    let waiting = waits(&started, &add(1));
    let list = started.broker.approvals(None).await.unwrap();
    assert_eq!(list.pending.len(), 1);
    let seen = &list.pending[0];
    assert_eq!(seen.id, asked.approval);
    assert!(seen.shown.contains("write_file"), "{}", seen.shown);
    assert!(seen.shown.contains("│ 1\n"), "{}", seen.shown);
    assert_eq!(ran(&test), "", "nothing yet");

    let told = say(&started, Said::Approve, seen).await.unwrap();
    assert_eq!(told.state, ApprovalState::Approved);
    let ended = waiting.await.unwrap();
    assert_eq!(ended.outcome, CallOutcome::Ok, "{}", ended.content);
    assert_eq!(ran(&test), "1\n");
    // Asked again, it is answered from the record; the approval is used up.
    let again = result(&started, &add(1)).await;
    assert!(again.replayed);
    assert_eq!(shown(&started, &asked).await.state, ApprovalState::Used);
    assert_eq!(ran(&test), "1\n");
    started.stop().await;

    test.verify();
    let records = test.records();
    let kinds: Vec<&str> = records
        .iter()
        .map(|r| r["kind"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        ["config", "approval", "approval", "intent", "outcome"]
    );
    let body = |at: usize| -> serde_json::Value {
        serde_json::from_str(records[at]["body"].as_str().unwrap()).unwrap()
    };
    assert_eq!(body(1)["binding"]["arguments"], add(1).arguments);
    assert_eq!(body(2)["state"], "approved");
    assert_eq!(body(2)["shown_sha256"], seen.shown_sha256);
}

#[tokio::test]
async fn a_call_that_is_denied_never_runs_and_says_who_denied_it() {
    let test = asking_home();
    let started = start(&test).await;
    let asked = awaiting(&started, &add(1)).await;
    let seen = shown(&started, &asked).await;
    say(&started, Said::Deny, &seen).await.unwrap();
    let ended = result(&started, &add(1)).await;
    assert_eq!(
        (ended.outcome, ended.code),
        (CallOutcome::Denied, Some(Code::ApprovalDenied))
    );
    assert!(
        ended.content.contains("the owner denied it"),
        "{}",
        ended.content
    );
    let late = say(&started, Said::Approve, &seen).await.unwrap_err();
    assert_eq!(late.code, Code::NotFound, "{late}");
    assert!(result(&started, &add(1)).await.replayed);
    assert_eq!(ran(&test), "");
    started.stop().await;
    test.verify();
}

#[tokio::test]
async fn of_many_clicks_one_counts_and_the_call_runs_once() {
    let test = asking_home();
    let started = start(&test).await;
    let asked = awaiting(&started, &add(1)).await;
    let seen = shown(&started, &asked).await;
    let waiting: Vec<_> = (0..8).map(|_| waits(&started, &add(1))).collect();
    let mut clicks = tokio::task::JoinSet::new();
    for click in 0..16 {
        let (broker, seen) = (started.broker.clone(), seen.clone());
        let said = if click % 2 == 0 {
            Said::Approve
        } else {
            Said::Deny
        };
        clicks.spawn(async move {
            let answer = Answer {
                said,
                shown_sha256: seen.shown_sha256,
            };
            broker.answer(seen.id, answer).await
        });
    }
    let counted: Vec<_> = clicks.join_all().await.into_iter().flatten().collect();
    assert_eq!(counted.len(), 1, "{counted:?}");
    let is_yes = counted[0].state == ApprovalState::Approved;
    for waiting in waiting {
        let ended = waiting.await.unwrap();
        assert_eq!(ended.outcome == CallOutcome::Ok, is_yes, "{ended:?}");
    }
    assert_eq!(ran(&test), if is_yes { "1\n" } else { "" });
    started.stop().await;
    test.verify();
}

#[tokio::test]
async fn whoever_watches_hears_of_each_change() {
    let test = asking_home();
    let started = start(&test).await;
    let first = started.broker.approvals(None).await.unwrap();
    assert!(first.pending.is_empty());
    let broker = started.broker.clone();
    let watching = tokio::spawn(async move { broker.approvals(Some(first.version)).await });
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(!watching.is_finished(), "there is nothing new");
    let asked = awaiting(&started, &add(1)).await;
    let second = watching.await.unwrap().unwrap();
    assert_eq!(second.pending.len(), 1);
    approve(&started, &asked).await;
    let third = started
        .broker
        .approvals(Some(second.version))
        .await
        .unwrap();
    assert!(third.pending.is_empty());
    // A version of a start before this one is no reason to wait.
    let foreign = started.broker.approvals(Some(999)).await.unwrap();
    assert_eq!(foreign.pending.len(), 0);
    started.stop().await;
}

#[tokio::test]
async fn a_guardrail_asks_as_a_grant_does_and_lists_the_lineage() {
    let test = TestHome::new();
    test.configure("[[grant]]\ntool = \"write_file\"\nmax_taint = \"private\"\n");
    let started = test.start();
    let mut register = owner();
    register.rules.approval_required = ["write".to_owned()].into();
    started.register("s", register).await;
    let mut child = owner();
    child.parent = Some(crate::support::session("s"));
    started.register("kid", child).await;
    let asked = awaiting(
        &started,
        &request("kid", 1, "write_file", &add(1).arguments),
    )
    .await;
    let seen = shown(&started, &asked).await;
    assert_eq!(seen.lineage, [crate::support::session("s")]);
    assert!(seen.shown.contains("a guardrail asks"), "{}", seen.shown);
    started.stop().await;
}
