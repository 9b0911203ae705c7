//! Starting after a death: torn tails, calls under way, a second brokerd.

use crate::support::{TestHome, owner, request};
use bxcore::audit::{Head, sha256_hex};
use bxcore::code::Code;
use bxcore::transcript::CallOutcome;
use std::fs::File;
use std::io::Write;

async fn one_call() -> TestHome {
    let test = TestHome::new();
    let started = test.start();
    started.register("s", owner()).await;
    started.call("s", 1, "list_dir", "{}").await;
    started.stop().await;
    test
}

fn append(test: &TestHome, bytes: &[u8]) {
    let segment = test.segments().pop().unwrap();
    File::options()
        .append(true)
        .open(segment)
        .unwrap()
        .write_all(bytes)
        .unwrap();
}

/// Appends a line that follows, as a brokerd would have that then died.
fn append_record(test: &TestHome, members: &str) {
    let head = test.verify().head;
    let (line, _) = head.seal(&format!("{{\"v\":1,\"seq\":{},{members}", head.seq + 1));
    append(test, format!("{line}\n").as_bytes());
}

#[tokio::test]
async fn a_torn_tail_is_moved_aside_and_named() {
    for torn in [
        &b"{"[..],
        b"{\"v\":1,\"seq\":4,\"ts\":\"2026",
        b"\0\0\0\0",
        &vec![b'x'; 2_000_000],
    ] {
        let test = one_call().await;
        test.verify();
        let before = test.records().len();
        append(&test, torn);
        test.start().stop().await;
        test.verify();
        let records = test.records();
        let recovered = &records[before];
        assert_eq!(recovered["kind"], "recovered");
        let body: serde_json::Value =
            serde_json::from_str(recovered["body"].as_str().unwrap()).unwrap();
        assert_eq!(
            (&body["bytes"], &body["sha256"]),
            (&torn.len().into(), &sha256_hex(torn).into())
        );
        let kept = test.home.audit_dir().join(body["file"].as_str().unwrap());
        assert_eq!(
            std::fs::read(kept).unwrap(),
            torn,
            "nothing is cut silently"
        );
        // It is recovered once.
        test.start().stop().await;
        let again = test
            .records()
            .iter()
            .filter(|r| r["kind"] == "recovered")
            .count();
        assert_eq!(again, 1);
    }
}

#[tokio::test]
async fn a_torn_tail_that_was_moved_but_not_recorded_is_recorded_later() {
    let test = one_call().await;
    std::fs::write(test.home.audit_dir().join("torn-000001-9-abc"), "rest").unwrap();
    test.start().stop().await;
    test.verify();
    assert!(test.records().iter().any(|r| r["kind"] == "recovered"));
}

#[tokio::test]
async fn a_whole_line_that_does_not_follow_is_no_torn_tail() {
    let test = one_call().await;
    let (line, _) = Head::GENESIS.seal("{\"v\":1,\"seq\":4,\"kind\":\"intent\"");
    append(&test, format!("{line}\n").as_bytes());
    assert_eq!(test.try_open().unwrap_err().code, Code::AuditChainBroken);
    // And nothing was touched by looking at it.
    assert_eq!(test.try_open().unwrap_err().code, Code::AuditChainBroken);
}

#[tokio::test]
async fn a_log_whose_start_was_removed_does_not_hold() {
    let test = one_call().await;
    let segment = test.segments().remove(0);
    let text = std::fs::read_to_string(&segment).unwrap();
    let (_, rest) = text.split_once('\n').unwrap();
    std::fs::write(&segment, rest).unwrap();
    assert_eq!(test.try_open().unwrap_err().code, Code::AuditChainBroken);
}

#[tokio::test]
async fn an_intent_without_outcome_is_settled_at_the_next_start() {
    let test = one_call().await;
    let arguments = "{}";
    let sha256 = sha256_hex(arguments.as_bytes());
    append_record(
        &test,
        &format!(
            "\"kind\":\"intent\",\"session\":\"s\",\"call\":2,\"tool\":\"list_dir\",\
             \"body\":\"{{}}\",\"body_len\":2,\"body_sha256\":\"{sha256}\""
        ),
    );
    let started = test.start();
    let records = test.records();
    let outcome = records.iter().find(|r| r["outcome"] == "unknown").unwrap();
    assert_eq!(
        (&outcome["kind"], &outcome["call"]),
        (&"outcome".into(), &2.into())
    );
    // The tool only reads, so the call is made again, with an intent of its own.
    let mut again = request("s", 2, "list_dir", arguments);
    again.resumed = true;
    let result = started.broker.call(again).await.unwrap().result().unwrap();
    assert_eq!(result.outcome, CallOutcome::Ok);
    assert!(result.audit.unwrap() > outcome["seq"].as_u64().unwrap());
    started.stop().await;
    test.start().stop().await;
    test.verify();
    let unknown = test
        .records()
        .iter()
        .filter(|r| r["outcome"] == "unknown")
        .count();
    assert_eq!(unknown, 1, "settled once");
}

#[tokio::test]
async fn a_second_brokerd_is_refused() {
    let test = TestHome::new();
    let first = test.try_open().unwrap();
    assert_eq!(test.try_open().unwrap_err().code, Code::HomeHeld);
    drop(first);
    test.try_open().unwrap();
}

#[tokio::test]
async fn the_configuration_in_force_is_on_record() {
    let test = TestHome::new();
    test.start().stop().await;
    let text = "[[grant]]\ntool = \"shell\" # mine\n";
    test.configure(text);
    test.start().stop().await;
    test.verify();
    let bodies: Vec<_> = test
        .records()
        .iter()
        .map(|r| r["body"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(bodies, ["", text]);
}
