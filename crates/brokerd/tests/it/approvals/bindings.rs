//! What an approval is bound to: whatever changes between the question and the call, the call does
//! not run, and the owner is asked anew.

use super::{GRANT, add, approve, awaiting, ran, result, say, shown, start, waits};
use crate::support::{Started, TestHome, owner, raise, request};
use bxcore::code::Code;
use bxcore::label::{Class, Label};
use bxcore::transcript::CallOutcome;
use bxcore::wire::approval::{Answer, ApprovalState, Awaiting, Said};
use bxcore::wire::brokerd::CallRequest;
use serde_json::json;

/// The approval, given or not, that a changed call must not run by.
async fn is_void(started: &Started, old: &Awaiting, changed: &CallRequest) -> Awaiting {
    let new = awaiting(started, changed).await;
    assert_ne!(new.approval, old.approval, "the owner is asked anew");
    let seen = shown(started, old).await;
    assert_eq!(seen.state, ApprovalState::Outdated);
    let late = say(started, Said::Approve, &seen).await.unwrap_err();
    assert_eq!(late.code, Code::NotFound, "{late}");
    new
}

/// A number for a call is used for one call, so that nothing else can void a question or run by it.
#[tokio::test]
async fn other_arguments_and_other_tools_are_another_call() {
    let test = TestHome::new();
    test.configure(&format!(
        "{GRANT}\n[[grant]]\ntool = \"shell\"\nmax_taint = \"private\"\napproval = \"always\"\n"
    ));
    let started = start(&test).await;
    let asked = awaiting(&started, &add(1)).await;
    let mut spaced = add(1);
    // The same value, in other bytes.
    spaced.arguments = spaced.arguments.replace("\"path\":", "\"path\": ");
    let shell = request("s", 1, "shell", r#"{"command":"echo x >> log"}"#);
    for approve_first in [false, true] {
        if approve_first {
            approve(&started, &asked).await;
        }
        for changed in [&spaced, &shell] {
            let refused = started.broker.call(changed.clone()).await.unwrap_err();
            assert_eq!(refused.code, Code::BadRequest, "{refused}");
        }
        assert_eq!(ran(&test), "");
    }
    assert_eq!(result(&started, &add(1)).await.outcome, CallOutcome::Ok);
    assert_eq!(ran(&test), "1\n");
    started.stop().await;
    test.verify();
}

#[tokio::test]
async fn another_call_or_session_has_no_part_in_it() {
    let test = super::asking_home();
    let started = start(&test).await;
    started.register("t", owner()).await;
    let asked = awaiting(&started, &add(1)).await;
    approve(&started, &asked).await;
    let mut other_call = add(1);
    other_call.call = bxcore::id::CallId(2);
    let mut other_session = add(1);
    other_session.session = crate::support::session("t");
    for other in [other_call, other_session] {
        let new = awaiting(&started, &other).await;
        assert_ne!(new.approval, asked.approval);
    }
    assert_eq!(ran(&test), "");
    assert_eq!(result(&started, &add(1)).await.outcome, CallOutcome::Ok);
    started.stop().await;
}

#[tokio::test]
async fn a_session_that_read_more_meanwhile_is_asked_for_anew() {
    let test = TestHome::new();
    test.configure(&GRANT.replace("private", "secret"));
    let started = start(&test).await;
    let asked = awaiting(&started, &add(1)).await;
    approve(&started, &asked).await;
    let secret = Label::new(Class::Secret, false);
    started.register("s", raise(secret)).await;
    let new = is_void(&started, &asked, &add(1)).await;
    assert!(shown(&started, &new).await.shown.contains("│ secret\n"));
    // One that reads what no grant admits is denied, whatever was approved.
    approve(&started, &new).await;
    let untrusted = Label::new(Class::Secret, true);
    started.register("s", raise(untrusted)).await;
    let ended = result(&started, &add(1)).await;
    assert_eq!(ended.code, Some(Code::UntrustedSession));
    assert_eq!(ran(&test), "");
    started.stop().await;
    test.verify();
}

#[tokio::test]
async fn a_label_that_rises_while_the_owner_thinks_is_asked_for_anew() {
    let test = TestHome::new();
    test.configure(&GRANT.replace("private", "secret"));
    let started = start(&test).await;
    let asked = awaiting(&started, &add(1)).await;
    let broker = started.broker.clone();
    let parked = tokio::spawn(async move { broker.call(add(1)).await.unwrap() });
    super::all_sent(&started).await;
    let secret = Label::new(Class::Secret, false);
    started.register("s", raise(secret)).await;
    // The owner saw `private`, and says yes to that.
    approve(&started, &asked).await;
    assert!(parked.await.unwrap().result().is_none(), "it waits again");
    assert_eq!(ran(&test), "");
    started.stop().await;
}

#[tokio::test]
async fn a_folder_that_stands_for_another_place_is_asked_for_anew() {
    let test = TestHome::new();
    let place = |name: &str| {
        format!(
            "{GRANT}\n[[workspace]]\nname = \"desk\"\npath = \"{}\"\nwritable = true\n",
            test.beside(name).display()
        )
    };
    test.configure(&place("one"));
    let started = start(&test).await;
    let write = request(
        "s",
        1,
        "write_file",
        &json!({"path": "desk/a", "content": "x", "mode": "create"}).to_string(),
    );
    let asked = awaiting(&started, &write).await;
    approve(&started, &asked).await;
    started.stop().await;
    test.configure(&place("two"));
    let started = start(&test).await;
    let new = is_void(&started, &asked, &write).await;
    let told = shown(&started, &new).await.shown;
    assert!(told.contains("/two/a"), "{told}");
    started.stop().await;
    assert!(!test.beside("two").join("a").exists());
}

#[tokio::test]
async fn another_rule_that_asks_is_asked_for_anew() {
    let test = super::asking_home();
    let started = start(&test).await;
    let asked = awaiting(&started, &add(1)).await;
    approve(&started, &asked).await;
    started.stop().await;
    // Another grant comes first: what was disclosed was grant 1, which is another one now.
    let other = "[[grant]]\ntool = \"shell\"\nmax_taint = \"private\"\n\n";
    test.configure(&format!("{other}{GRANT}"));
    let started = start(&test).await;
    is_void(&started, &asked, &add(1)).await;
    assert_eq!(ran(&test), "");
    started.stop().await;
}

#[tokio::test]
async fn another_host_is_asked_for_anew() {
    let config = |host: &str| {
        format!(
            "[consult]\nurl = \"http://{host}:9/v1\"\nmodel = \"m\"\nsecret = \"elsewhere\"\n\
             price = {{ prompt = \"3\", completion = \"15\" }}\nreserve_usd = \"0.5\"\n\
             daily_usd = \"2\"\n[[grant]]\ntool = \"consult\"\nmax_taint = \"private\"\n\
             approval = \"always\"\n"
        )
    };
    let test = TestHome::new();
    test.put_secret("elsewhere", "sk-0815-Zq-long-enough");
    test.configure(&config("127.0.0.1"));
    let started = test.start_with_outside();
    started.register("s", owner()).await;
    let mut ask = request("s", 1, "consult", r#"{"question":"why?"}"#);
    ask.reserved = bxcore::money::MicroUsd::from_micros(500_000).ok();
    let asked = awaiting(&started, &ask).await;
    let told = approve(&started, &asked).await.shown;
    assert!(told.contains("goes to         │ 127.0.0.1\n"), "{told}");
    let whole = told.replace(&format!("\n{}┆ ", " ".repeat(16)), "");
    assert!(whole.contains(r#""content":"why?""#), "{told}");
    started.stop().await;
    test.configure(&config("localhost"));
    let started = test.start_with_outside();
    started.register("s", owner()).await;
    let new = is_void(&started, &asked, &ask).await;
    let told = shown(&started, &new).await.shown;
    assert!(told.contains("goes to         │ localhost\n"), "{told}");
    started.stop().await;
}

#[tokio::test]
async fn a_yes_to_something_else_is_no_yes() {
    let test = super::asking_home();
    let started = start(&test).await;
    let first = awaiting(&started, &add(1)).await;
    let second = awaiting(&started, &add(2)).await;
    let seen = shown(&started, &first).await;
    let answer = Answer {
        said: Said::Approve,
        shown_sha256: seen.shown_sha256.clone(),
    };
    let wrong = started.broker.answer(second.approval.clone(), answer).await;
    assert_eq!(wrong.unwrap_err().code, Code::BadRequest);
    let unknown = bxcore::id::ApprovalId::new("00000000").unwrap();
    let answer = Answer {
        said: Said::Approve,
        shown_sha256: seen.shown_sha256,
    };
    let none = started.broker.answer(unknown, answer).await;
    assert_eq!(none.unwrap_err().code, Code::NotFound);
    assert_eq!(ran(&test), "");
    let waiting = waits(&started, &add(2));
    approve(&started, &second).await;
    assert_eq!(waiting.await.unwrap().outcome, CallOutcome::Ok);
    assert_eq!(ran(&test), "2\n");
    started.stop().await;
}
