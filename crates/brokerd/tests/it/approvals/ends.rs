//! How a question ends without a yes, and what a restart leaves of one.

use super::{add, approve, awaiting, ran, result, say, shown, start, waits};
use crate::support::{TestHome, owner, request, session};
use brokerd::approval::{MAX_PENDING, MAX_SHOWN_BYTES};
use bxcore::code::Code;
use bxcore::id::CallId;
use bxcore::transcript::CallOutcome;
use bxcore::wire::approval::{ApprovalState, Said, Withdraw};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use std::sync::atomic::{AtomicI64, Ordering};

/// How far the test's clock is off, in seconds. Each test is a process of its own.
static CLOCK_OFF: AtomicI64 = AtomicI64::new(0);

fn shifted() -> Timestamp {
    Timestamp::now() + SignedDuration::from_secs(CLOCK_OFF.load(Ordering::SeqCst))
}

const HOUR: i64 = 3600;

#[tokio::test]
async fn a_question_that_nobody_answers_expires() {
    let test = super::asking_home();
    let started = test.start_by(shifted);
    started.register("s", owner()).await;
    let asked = awaiting(&started, &add(1)).await;
    let waiting = waits(&started, &add(1));
    super::all_sent(&started).await;
    CLOCK_OFF.store(HOUR + 1, Ordering::SeqCst);
    // It ends by itself, and whoever waits is told.
    let ended = waiting.await.unwrap();
    assert_eq!(
        (ended.outcome, ended.code),
        (CallOutcome::Denied, Some(Code::ApprovalExpired))
    );
    assert!(
        ended.content.contains("nobody answered in time"),
        "{}",
        ended.content
    );
    let seen = shown(&started, &asked).await;
    assert_eq!(seen.state, ApprovalState::Expired);
    let late = say(&started, Said::Approve, &seen).await.unwrap_err();
    assert_eq!(late.code, Code::ApprovalExpired, "{late}");
    assert_eq!(ran(&test), "");
    started.stop().await;
    test.verify();
}

#[tokio::test]
async fn a_late_click_is_too_late_even_where_nobody_has_looked() {
    let test = super::asking_home();
    let started = test.start_by(shifted);
    started.register("s", owner()).await;
    for (call, off) in [(1, HOUR + 1), (2, -1)] {
        CLOCK_OFF.store(0, Ordering::SeqCst);
        let asked = awaiting(&started, &add(call)).await;
        let seen = shown(&started, &asked).await;
        // A clock that was set back is no reason to wait for longer.
        CLOCK_OFF.store(off * 24, Ordering::SeqCst);
        let late = say(&started, Said::Approve, &seen).await.unwrap_err();
        assert_eq!(late.code, Code::ApprovalExpired, "{off}: {late}");
        let ended = result(&started, &add(call)).await;
        assert_eq!(ended.code, Some(Code::ApprovalExpired));
    }
    assert_eq!(ran(&test), "");
    started.stop().await;
}

#[tokio::test]
async fn a_yes_that_is_not_used_expires_as_well() {
    let test = super::asking_home();
    let started = test.start_by(shifted);
    started.register("s", owner()).await;
    let asked = awaiting(&started, &add(1)).await;
    approve(&started, &asked).await;
    CLOCK_OFF.store(HOUR + 1, Ordering::SeqCst);
    let ended = result(&started, &add(1)).await;
    assert_eq!(ended.code, Some(Code::ApprovalExpired));
    assert_eq!(ran(&test), "");
    started.stop().await;
}

#[tokio::test]
async fn where_nobody_is_asked_a_call_is_denied_at_once() {
    let test = TestHome::new();
    test.configure(&format!("[approvals]\nask = false\n{}", super::GRANT));
    let started = start(&test).await;
    let ended = result(&started, &add(1)).await;
    assert_eq!(ended.code, Some(Code::ApprovalUnroutable));
    assert!(
        ended.content.contains("there is nobody to ask"),
        "{}",
        ended.content
    );
    assert_eq!(ran(&test), "");
    started.stop().await;
}

#[tokio::test]
async fn what_is_too_long_to_be_shown_is_never_asked_for() {
    let test = super::asking_home();
    let started = start(&test).await;
    let arguments =
        json!({"path": "log", "content": "x".repeat(MAX_SHOWN_BYTES), "mode": "create"});
    let long = request("s", 1, "write_file", &arguments.to_string());
    let ended = result(&started, &long).await;
    assert_eq!(ended.code, Some(Code::ApprovalUnroutable));
    assert!(
        ended.content.contains("too long to be shown"),
        "{}",
        ended.content
    );
    assert!(
        started
            .broker
            .approvals(None)
            .await
            .unwrap()
            .pending
            .is_empty()
    );
    started.stop().await;
}

#[tokio::test]
async fn no_more_questions_wait_than_a_person_can_answer() {
    let test = super::asking_home();
    let started = start(&test).await;
    for call in 1..=MAX_PENDING as u64 {
        awaiting(&started, &add(call)).await;
    }
    let one_more = add(MAX_PENDING as u64 + 1);
    let ended = result(&started, &one_more).await;
    assert_eq!(ended.code, Some(Code::ApprovalUnroutable));
    assert!(
        ended.content.contains("too many questions"),
        "{}",
        ended.content
    );
    let list = started.broker.approvals(None).await.unwrap();
    assert_eq!(list.pending.len(), MAX_PENDING);
    started.stop().await;
}

#[tokio::test]
async fn a_call_that_is_stopped_while_it_waits_never_runs() {
    let test = super::asking_home();
    let started = start(&test).await;
    let asked = awaiting(&started, &add(1)).await;
    let waiting = waits(&started, &add(1));
    super::all_sent(&started).await;
    let withdraw = Withdraw {
        session: session("s"),
        call: CallId(1),
    };
    // Parked or about to be, it ends with the same result.
    let ended = started
        .broker
        .withdraw(withdraw.clone())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (ended.outcome, ended.code),
        (CallOutcome::Denied, Some(Code::Stopped))
    );
    assert_eq!(waiting.await.unwrap().code, Some(Code::Stopped));
    let seen = shown(&started, &asked).await;
    assert_eq!(seen.state, ApprovalState::Withdrawn);
    say(&started, Said::Approve, &seen).await.unwrap_err();
    let again = started.broker.withdraw(withdraw).await.unwrap().unwrap();
    assert_eq!((again.outcome, again.code), (ended.outcome, ended.code));
    assert_eq!(ran(&test), "");
    started.stop().await;
    test.verify();
}

#[tokio::test]
async fn a_stop_that_comes_after_the_end_is_told_how_it_was() {
    let test = super::asking_home();
    let started = start(&test).await;
    let asked = awaiting(&started, &add(1)).await;
    let waiting = waits(&started, &add(1));
    approve(&started, &asked).await;
    let ended = waiting.await.unwrap();
    assert_eq!(ended.outcome, CallOutcome::Ok);
    let withdraw = Withdraw {
        session: session("s"),
        call: CallId(1),
    };
    let told = started.broker.withdraw(withdraw).await.unwrap().unwrap();
    assert_eq!(
        (told.outcome, &told.content),
        (ended.outcome, &ended.content)
    );
    started.stop().await;
}

#[tokio::test]
async fn a_stop_that_overtakes_its_call_ends_it_all_the_same() {
    let test = super::asking_home();
    let started = start(&test).await;
    let withdraw = Withdraw {
        session: session("s"),
        call: CallId(1),
    };
    let ended = started.broker.withdraw(withdraw).await.unwrap().unwrap();
    assert_eq!(ended.code, Some(Code::Stopped));
    // When it comes, nobody is asked and nothing runs.
    started.broker.call(add(1)).await.unwrap_err();
    let list = started.broker.approvals(None).await.unwrap();
    assert!(list.pending.is_empty());
    assert_eq!(ran(&test), "");
    started.stop().await;
}

#[tokio::test]
async fn whoever_waits_is_told_when_brokerd_ends() {
    let test = super::asking_home();
    let started = start(&test).await;
    let asked = awaiting(&started, &add(1)).await;
    let broker = started.broker.clone();
    let waiting = tokio::spawn(async move { broker.call(add(1)).await.unwrap() });
    super::all_sent(&started).await;
    started.closing.cancel();
    assert!(waiting.await.unwrap().result().is_none(), "it waits still");
    started.stop().await;
    let started = start(&test).await;
    assert_eq!(awaiting_again(&started, 1).await, asked.approval);
    started.stop().await;
}

#[tokio::test]
async fn a_deleted_session_leaves_no_yes_behind() {
    let test = super::asking_home();
    let started = start(&test).await;
    let asked = awaiting(&started, &add(1)).await;
    approve(&started, &asked).await;
    started.broker.forget(session("s")).await.unwrap();
    started.register("s", owner()).await;
    let new = awaiting(&started, &add(1)).await;
    assert_ne!(new.approval, asked.approval);
    assert_eq!(ran(&test), "");
    started.stop().await;
}

#[tokio::test]
async fn questions_and_answers_survive_a_restart() {
    let test = super::asking_home();
    let started = start(&test).await;
    let first = awaiting(&started, &add(1)).await;
    let second = awaiting(&started, &add(2)).await;
    approve(&started, &second).await;
    started.stop().await;

    let started = test.start();
    assert_eq!(
        started.broker.approvals(None).await.unwrap().pending.len(),
        1
    );
    assert_eq!(awaiting_again(&started, 1).await, first.approval);
    // Said yes to before the restart, and run after it, once.
    assert_eq!(result(&started, &add(2)).await.outcome, CallOutcome::Ok);
    let waiting = waits(&started, &add(1));
    approve(&started, &first).await;
    assert_eq!(waiting.await.unwrap().outcome, CallOutcome::Ok);
    started.stop().await;

    let started = test.start();
    for call in [1, 2] {
        assert!(result(&started, &add(call)).await.replayed);
    }
    assert_eq!(ran(&test), "2\n1\n");
    started.stop().await;
    test.verify();
}

/// The question that a call waits for still.
async fn awaiting_again(started: &crate::support::Started, call: u64) -> bxcore::id::ApprovalId {
    let list = started.broker.approvals(None).await.unwrap();
    let found = list
        .pending
        .into_iter()
        .find(|one| one.call == CallId(call));
    found.unwrap().id
}
