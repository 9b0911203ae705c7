//! Helpers in the whole house: slots, labels, limits, stops and crashes.

use crate::support::{
    asked, audit_records, begin, door, kept, sum, transcript, up_with_fault, verify_audit,
};
use bxcore::wire::loopd::{StopReport, TurnEvent};
use bxtest::fault::FaultPoint;
use bxtest::home::{BackendConfig, TestHome};
use bxtest::llama::{LlamaServer, Reply, Request};
use serde_json::{Value, json};

const SESSION: &str = "mm-abcdefghijklmnopqrstuvwxyz";
const CHILD: &str = "sub-mm-abcdefghijklmnopqrstuvwxyz-1";

fn delegate(task: &str) -> Reply {
    Reply::tool_calls([(
        "call_tool",
        json!({"name": "subagent", "arguments": {"task": task}}),
    )])
}

/// A model that has helpers work where it is told `delegate: TASK`, and else repeats what came last.
fn model(request: &Request) -> Reply {
    let text = request.last_text();
    if request.last_role() == "user"
        && let Some((_, task)) = text.split_once("delegate: ")
    {
        return delegate(task);
    }
    Reply::text(text)
}

fn house() -> (LlamaServer, TestHome) {
    let server = LlamaServer::builder().respond(model).start_blocking();
    let home = TestHome::new();
    home.write_backends(&[BackendConfig::of_server(&server)]);
    (server, home)
}

fn rows(home: &TestHome) -> Vec<Value> {
    let listed = home
        .cmd("boxmaker")
        .args(["sessions", "--all", "--json"])
        .run();
    listed.success().json().as_array().unwrap().clone()
}

fn log(home: &TestHome, session: &str) -> Vec<Value> {
    let text = transcript(home, session);
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn a_helper_works_on_the_background_slot_and_the_parents_cache_survives() {
    let (server, home) = house();
    let up = home.up();
    let report = asked(&home, SESSION, "delegate: say six");
    assert_eq!(report["outcome"], "completed", "{report}");
    let answer = report["answer"].as_str().unwrap();
    assert!(
        answer.contains(&format!("[{CHILD} completed · private")),
        "{answer}"
    );
    assert!(answer.contains("say six"), "{answer}");
    // The parent's requests are on its own slot and go on from each other; the child's is on the
    // background slot and holds nothing of the parent's.
    let child = log(&home, CHILD);
    assert_eq!(child[0]["parent"], SESSION);
    assert_eq!(child[0]["lineage"]["root"], SESSION);
    let slots = |session: &str| -> Vec<u64> {
        let answers = log(&home, session)
            .into_iter()
            .filter(|line| line["kind"] == "assistant");
        answers
            .map(|line| line["receipt"]["slot"].as_u64().unwrap())
            .collect()
    };
    assert_eq!(slots(CHILD), [2]);
    assert_eq!(slots(SESSION), [0, 0]);
    let user = child.iter().find(|line| line["kind"] == "user").unwrap();
    let task = user["message"]["content"].as_str().unwrap();
    assert!(
        task.starts_with("It is ") && task.ends_with("say six"),
        "{task}"
    );
    assert!(!task.contains("delegate"), "{task}");
    let cache = home
        .cmd("boxmaker")
        .args(["session", "cache", SESSION, "--json"])
        .run()
        .success()
        .json();
    let second = &cache[1];
    let kept = second["cache_n"].as_u64().unwrap() + 16;
    assert!(
        kept >= second["previous_total"].as_u64().unwrap(),
        "{cache}"
    );
    // A second helper of the same session has the next call's number.
    asked(&home, SESSION, "delegate: say seven");
    assert!(
        rows(&home)
            .iter()
            .any(|row| row["id"] == format!("{}2", &CHILD[..CHILD.len() - 1]))
    );
    assert_eq!(up.terminate().code(), Some(0));
    verify_audit(&home);
    let spawns = audit_records(&home);
    let spawns = spawns.iter().filter(|record| record["kind"] == "spawn");
    assert_eq!(spawns.count(), 2);
    server.assert_clean();
}

#[test]
fn helpers_may_have_helpers_and_all_of_it_is_paid_by_one_turn() {
    let (_server, home) = house();
    let up = home.up();
    let report = asked(&home, "chat-n", "delegate: delegate: delegate: say six");
    assert_eq!(report["outcome"], "completed", "{report}");
    let ids: Vec<String> = rows(&home)
        .iter()
        .map(|row| row["id"].as_str().unwrap().to_owned())
        .collect();
    for id in [
        "sub-chat-n-1",
        "sub-sub-chat-n-1-1",
        "sub-sub-sub-chat-n-1-1-1",
    ] {
        assert!(ids.contains(&id.to_owned()), "{ids:?}");
    }
    let answer = report["answer"].as_str().unwrap();
    assert!(
        answer.contains("[sub-sub-sub-chat-n-1-1-1 completed"),
        "{answer}"
    );
    assert_eq!(up.terminate().code(), Some(0));
    verify_audit(&home);
}

#[test]
fn a_tree_never_spends_more_than_its_root_may() {
    let (server, home) = house();
    home.write_config(
        "loopd.toml",
        "answer_tokens = 64\n[guardrails]\ntokens = 6000\n",
    );
    let up = home.up();
    let report = asked(
        &home,
        "chat-b",
        "delegate: delegate: delegate: delegate: say six",
    );
    // Wherever it ended, the whole tree is within the turn's limit, and nothing is held any more.
    let asked_of_model = server.requests().len();
    assert!(asked_of_model > 1, "{report}");
    assert_eq!(up.terminate().code(), Some(0));
    let mut spent = bxcore::usage::Spend::default();
    let mut child = "chat-b".to_owned();
    let whole = kept(&home, &child).account.spent;
    while home.transcript(&child).exists() {
        spent = spent.plus(sum(&kept(&home, &child).ledger));
        child = format!("sub-{child}-1");
    }
    assert!(whole.tokens <= 6000, "{whole:?}");
    assert_eq!(spent, whole, "the root has all of its tree's, once");
}

#[test]
fn what_a_helper_read_comes_back_with_its_answer() {
    let (_server, home) = house();
    let notes = home.path().join("notes");
    std::fs::create_dir(&notes).unwrap();
    std::fs::write(notes.join("a.txt"), "six").unwrap();
    home.write_config(
        "brokerd.toml",
        &format!(
            "[[workspace]]\npath = \"{}\"\nuntrusted = true\nclass = \"secret\"\n",
            notes.display()
        ),
    );
    let server = LlamaServer::builder()
        .respond(|request: &Request| {
            let text = request.last_text();
            match (request.last_role(), text.ends_with("read it")) {
                ("user", true) => Reply::tool_calls([(
                    "call_tool",
                    json!({"name": "read_file", "arguments": {"path": "notes/a.txt"}}),
                )]),
                _ => model(request),
            }
        })
        .start_blocking();
    home.write_backends(&[BackendConfig::of_server(&server)]);
    let up = home.up();
    let report = asked(&home, "chat-l", "delegate: read it");
    let tainted = json!({"class": "secret", "untrusted": true});
    assert_eq!(report["label"], tainted, "{report}");
    assert_eq!(up.terminate().code(), Some(0));
    // And it stays after a restart.
    let up = home.up();
    let report = asked(&home, "chat-l", "hello");
    assert_eq!(report["label"], tainted, "{report}");
    assert_eq!(up.terminate().code(), Some(0));
}

#[test]
fn bad_tasks_and_forbidden_helpers_are_refused_and_ask_no_model() {
    let call = |arguments: Value| {
        move |request: &Request| match request.last_role() {
            "user" => Reply::tool_calls([(
                "call_tool",
                json!({"name": "subagent", "arguments": arguments}),
            )]),
            _ => Reply::text(request.last_text()),
        }
    };
    for (config, arguments, code) in [
        (
            "",
            json!({"task": "a", "tools": ["shell"]}),
            "invalid-arguments",
        ),
        ("", json!({}), "invalid-arguments"),
        (
            "[guardrails]\ndeny = [\"subagent\"]\n",
            json!({"task": "a"}),
            "denied-by-guardrail",
        ),
        (
            "[guardrails]\nallow = [\"read_file\"]\n",
            json!({"task": "a"}),
            "denied-by-guardrail",
        ),
    ] {
        let server = LlamaServer::builder()
            .respond(call(arguments.clone()))
            .start_blocking();
        let home = TestHome::with_server(&server);
        home.write_config("loopd.toml", config);
        let _up = home.up();
        let report = asked(&home, "chat-r", "go");
        assert_eq!(report["calls"][0]["outcome"], "denied", "{report}");
        let log = log(&home, "chat-r");
        let result = log.iter().find(|line| line["kind"] == "tool").unwrap();
        assert_eq!(result["code"], code, "{result}");
        assert_eq!(server.requests().len(), 2, "the parent's own");
        assert_eq!(rows(&home).len(), 1);
    }
}

#[test]
fn a_helpers_session_takes_no_messages() {
    let (_server, home) = house();
    let _up = home.up();
    asked(&home, "chat-m", "delegate: say six");
    let sent = home
        .cmd("boxmaker")
        .args(["ask", "--session", "sub-chat-m-1", "hello"])
        .run();
    assert!(!sent.status.success());
    assert!(sent.stderr.contains("done with it"), "{}", sent.stderr);
    // And no door may make one.
    let made = home
        .cmd("boxmaker")
        .args(["ask", "--session", "sub-new", "hello"])
        .run();
    assert!(
        made.stderr.contains("session-id-invalid"),
        "{}",
        made.stderr
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_a_parent_stops_its_tree() {
    let gate = bxtest::llama::Gate::new();
    let halting = gate.clone();
    let server = LlamaServer::builder()
        .respond(move |request: &Request| match request.last_text() {
            text if text.ends_with("\n\ncount") => crate::support::halting(&halting),
            _ => model(request),
        })
        .start()
        .await;
    let home = TestHome::with_server(&server);
    let _up = home.up();
    let door = door(&home);
    let events = begin(&door, "chat-s", "delegate: delegate: count").await;
    gate.arrived(1).await;
    let report: StopReport = door
        .post("/v1/sessions/chat-s/stop", &json!({}))
        .await
        .unwrap();
    assert_eq!((report.stopped, report.failed), (3, 0), "{report:?}");
    let (seen, report) = events.rest().await;
    assert_eq!(report.outcome, bxcore::transcript::TurnOutcome::Stopped);
    assert!(
        seen.iter()
            .any(|event| matches!(event, TurnEvent::Child { .. }))
    );
    let asked = server.requests().len();
    for id in ["chat-s", "sub-chat-s-1", "sub-sub-chat-s-1-1"] {
        let lines = log(&home, id);
        let end = lines.last().unwrap();
        assert_eq!(
            (&end["kind"], &end["outcome"]),
            (&json!("turn_end"), &json!("stopped")),
            "{id}"
        );
    }
    gate.open();
    assert_eq!(
        server.requests().len(),
        asked,
        "nobody asks a model any more"
    );
}

/// Killed at each point of a helper's life: exactly one end reaches the parent, and no answer that
/// is recorded is paid for again.
#[test]
fn a_helper_survives_the_death_of_loopd_at_any_point() {
    for point in [
        "loopd.before-tool",
        "loopd.before-model-call",
        "loopd.after-answer",
        "loopd.after-child",
        "loopd.before-child-label",
        "loopd.after-tool",
    ] {
        for hit in 1..=2 {
            let (server, home) = house();
            let fault = FaultPoint {
                name: point.to_owned(),
                nth: hit,
            };
            let up = up_with_fault(&home, &fault);
            let ask = home.cmd("boxmaker");
            let ask = ask.args(["ask", "--json", "--session", "chat-k", "delegate: say six"]);
            let report = ask.run().success().json();
            assert_eq!(report["outcome"], "completed", "{point} {hit}: {report}");
            assert_eq!(up.terminate().code(), Some(0), "{point} {hit}");
            let results = log(&home, "chat-k");
            let results: Vec<_> = results
                .iter()
                .filter(|line| line["kind"] == "tool")
                .collect();
            assert_eq!(results.len(), 1, "{point} {hit}");
            let content = results[0]["message"]["content"].as_str().unwrap();
            assert!(
                content.contains("[sub-chat-k-1 completed"),
                "{point} {hit}: {content}"
            );
            let answers = |session: &str| {
                let lines = log(&home, session);
                lines
                    .iter()
                    .filter(|line| line["kind"] == "assistant")
                    .count()
            };
            assert_eq!(
                (answers("chat-k"), answers("sub-chat-k-1")),
                (2, 1),
                "{point} {hit}"
            );
            let lost = kept(&home, "chat-k").lost() + kept(&home, "sub-chat-k-1").lost();
            // A lost call may have died before it reached the server.
            let asked = server.requests().len();
            assert!((3..=3 + lost).contains(&asked), "{point} {hit}: {asked}");
            verify_audit(&home);
        }
    }
}

/// A house whose helper halts in the middle of its answer, until the gate opens.
fn house_that_halts() -> (bxtest::llama::Gate, LlamaServer, TestHome) {
    let gate = bxtest::llama::Gate::new();
    let halting = gate.clone();
    let server = LlamaServer::builder()
        .respond(move |request: &Request| match request.last_text() {
            text if text.ends_with("\n\ncount") => crate::support::halting(&halting),
            _ => model(request),
        })
        .start_blocking();
    let home = TestHome::with_server(&server);
    (gate, server, home)
}

fn end_of(home: &TestHome, session: &str) -> Value {
    log(home, session).last().unwrap().clone()
}

#[test]
fn a_stop_reaches_a_helper_that_a_start_resumed() {
    let (gate, server, home) = house_that_halts();
    let up = home.up();
    let ask = home.cmd("boxmaker");
    let ask = ask
        .args(["ask", "--session", "chat-s", "delegate: count"])
        .spawn();
    gate.arrived_blocking(1);
    home.kill_role("loopd");
    // Both turns go on by themselves, and the helper asks its model again.
    gate.arrived_blocking(2);
    let stopped = home
        .cmd("boxmaker")
        .args(["session", "stop", "chat-s", "--json"])
        .run();
    let stopped = stopped.success().json();
    assert_eq!(stopped["failed"], 0, "{stopped}");
    for id in ["chat-s", "sub-chat-s-1"] {
        assert_eq!(end_of(&home, id)["outcome"], "stopped", "{id}");
    }
    let asked = server.requests().len();
    ask.wait();
    gate.open();
    assert_eq!(up.terminate().code(), Some(0));
    assert_eq!(server.requests().len(), asked);
}

#[test]
fn a_house_that_leaves_loses_no_helpers_end() {
    let (gate, _server, home) = house_that_halts();
    let up = home.up();
    let ask = home.cmd("boxmaker");
    let ask = ask
        .args(["ask", "--session", "chat-g", "delegate: count"])
        .spawn();
    gate.arrived_blocking(1);
    assert_eq!(up.terminate().code(), Some(0));
    ask.wait();
    for id in ["chat-g", "sub-chat-g-1"] {
        assert_ne!(
            end_of(&home, id)["kind"],
            "turn_end",
            "{id} was left as it was"
        );
    }
    gate.open();
    let up = home.up();
    up.until("both turns end", || {
        ["chat-g", "sub-chat-g-1"]
            .iter()
            .all(|id| end_of(&home, id)["kind"] == "turn_end")
    });
    let lines = log(&home, "chat-g");
    let results: Vec<_> = lines.iter().filter(|line| line["kind"] == "tool").collect();
    assert_eq!(results.len(), 1);
    let content = results[0]["message"]["content"].as_str().unwrap();
    assert!(content.contains("[sub-chat-g-1 completed"), "{content}");
    assert_eq!(up.terminate().code(), Some(0));
}

/// Stopped in the moment in which a tool call is announced, over and over: the turn always ends.
#[tokio::test(flavor = "multi_thread")]
async fn a_stop_just_before_a_tool_never_leaves_a_turn_open() {
    let server = LlamaServer::builder()
        .respond(|request: &Request| match request.last_role() {
            "user" => Reply::tool_call("clock", json!({})),
            _ => Reply::text("noon"),
        })
        .start()
        .await;
    let home = TestHome::with_server(&server);
    let _up = home.up();
    let door = door(&home);
    for round in 0..40 {
        let session = format!("chat-{round}");
        let mut events = begin(&door, &session, "time?").await;
        let path = format!("/v1/sessions/{session}/stop");
        let mut ended = None;
        while let Some(event) = events.next().await {
            match event {
                TurnEvent::Started { .. } if round % 2 == 0 => {
                    let _: StopReport = door.post(&path, &json!({})).await.unwrap();
                }
                TurnEvent::ToolCall { .. } => {
                    let _: StopReport = door.post(&path, &json!({})).await.unwrap();
                }
                TurnEvent::End { report } => ended = Some(report.outcome),
                TurnEvent::Refused { problem } => panic!("{round}: {problem}"),
                _ => {}
            }
        }
        assert!(ended.is_some(), "{round}");
        assert_eq!(end_of(&home, &session)["kind"], "turn_end", "{round}");
    }
}

/// With `approval_required`, the owner is asked before a helper begins: at any depth, in one list, with
/// who asks for it; over the death of loopd; and a no or a stop makes none.
#[test]
fn a_helper_begins_only_once_the_owner_has_said_yes() {
    let (server, home) = house();
    home.write_config(
        "loopd.toml",
        "[guardrails]\napproval_required = [\"subagent\"]\n",
    );
    let up = home.up();
    let ask = |session: &'static str, text: &'static str| {
        let ask = home
            .cmd("boxmaker")
            .args(["ask", "--json", "--session", session, text]);
        ask.spawn()
    };
    let pending = |asking: &bxtest::home::Child<'_>| -> Value {
        let list = || {
            let list = home.cmd("boxmaker").args(["approvals", "--json"]).run();
            let is_there = list.code() == Some(0);
            is_there
                .then(|| list.json()[0].clone())
                .filter(Value::is_object)
        };
        asking.until("a helper waits for approval", || list().is_some());
        list().unwrap()
    };
    let say = |word: &str, one: &Value| {
        let id = one["id"].as_str().unwrap();
        let said = home.cmd("boxmaker").args([word, id]);
        let said = if word == "approve" {
            said.arg("--yes")
        } else {
            said
        };
        said.run().success();
    };
    // Two helpers, the second for the first.
    let asking = ask("chat-y", "delegate: delegate: say six");
    let first = pending(&asking);
    assert_eq!(
        (&first["tool"], &first["session"]),
        (&"subagent".into(), &"chat-y".into())
    );
    assert!(
        first["shown"].as_str().unwrap().contains("say six"),
        "{first}"
    );
    assert_eq!(rows(&home).len(), 1, "none is made before");
    home.kill_role("loopd");
    say("approve", &pending(&asking));
    asking.until("the helper's helper waits", || {
        pending(&asking)["session"] == "sub-chat-y-1"
    });
    let second = pending(&asking);
    assert_eq!(second["lineage"], json!(["chat-y"]));
    say("approve", &second);
    asking.wait();
    let result = |session: &str| {
        let log = log(&home, session);
        log.into_iter().find(|line| line["kind"] == "tool").unwrap()
    };
    assert_eq!(result("chat-y")["outcome"], "ok");
    assert_eq!(rows(&home).len(), 3);

    let asking = ask("chat-n", "delegate: say six");
    say("deny", &pending(&asking));
    asking.wait();
    assert_eq!(result("chat-n")["code"], "approval-denied");

    let asking = ask("chat-s", "delegate: say six");
    pending(&asking);
    let stop = home
        .cmd("boxmaker")
        .args(["session", "stop", "chat-s", "--json"]);
    assert_eq!(stop.run().success().json()["failed"], 0);
    asking.wait();
    assert_eq!(result("chat-s")["code"], "stopped");
    assert_eq!(rows(&home).len(), 5, "no further helper was made");
    assert_eq!(up.terminate().code(), Some(0));
    verify_audit(&home);
    server.assert_clean();
}

/// What a helper said and did is what its parent was told of, and what the audit log has: or it is told.
#[test]
fn a_helpers_transcript_is_verified_against_its_receipt_and_the_log() {
    let server = LlamaServer::builder()
        .respond(|request: &Request| match request.last_text() {
            text if text.ends_with("\n\nlook around") => {
                Reply::tool_calls([("call_tool", json!({"name": "list_dir", "arguments": {}}))])
            }
            _ => model(request),
        })
        .start_blocking();
    let home = TestHome::with_server(&server);
    let up = home.up();
    asked(&home, "chat-v", "delegate: look around");
    assert_eq!(up.terminate().code(), Some(0));
    let verify = |id: &str| {
        let verify = home
            .cmd("boxmaker")
            .args(["session", "verify", id, "--json"]);
        verify.run()
    };
    let child = "sub-chat-v-1";
    let held = verify(child).success().json();
    assert_eq!(
        (&held["parent"], &held["calls_on_record"]),
        (&"chat-v".into(), &1.into()),
        "{held}"
    );
    let receipt = held["receipt"].as_str().unwrap();
    assert!(
        receipt.contains(&held["log_sha256"].as_str().unwrap()[..16]),
        "{receipt}"
    );

    let wrong = |id: &str, expect: &str| {
        let said = verify(id);
        assert_ne!(said.code(), Some(0), "{expect}");
        assert!(said.stderr.contains(expect), "{}", said.stderr);
    };
    wrong("chat-v", "is no helper's session");
    wrong("sub-chat-v-9", "can't be read");
    let changed = |session: &str, from: &str, to: &str, expect: &str| {
        let path = home.transcript(session);
        let whole = std::fs::read_to_string(&path).unwrap();
        assert!(whole.contains(from), "{whole}");
        std::fs::write(&path, whole.replacen(from, to, 1)).unwrap();
        wrong(child, expect);
        std::fs::write(&path, whole).unwrap();
    };
    // A word of the helper's, the receipt itself, the number of a line, a record that is another's.
    changed(
        child,
        "look around",
        "look aside.",
        "is not the one that its parent was told of",
    );
    changed(
        "chat-v",
        "model calls",
        "model halls",
        "is not the one that its parent was told of",
    );
    changed(child, "\"n\":3,", "\"n\":4,", "does not hold");
    verify(child).success();
    // A log that is cut behind what was signed is no witness.
    let segment = bxkit::audit_reader::segments(&home.state_dir().join("audit"))
        .unwrap()
        .remove(0);
    let whole = std::fs::read_to_string(&segment).unwrap();
    let cut: Vec<&str> = whole.lines().take(3).collect();
    std::fs::write(&segment, cut.join("\n") + "\n").unwrap();
    wrong(child, "audit-chain-broken");
    std::fs::write(&segment, whole).unwrap();
    verify(child).success();
}
