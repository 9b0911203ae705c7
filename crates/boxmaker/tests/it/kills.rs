//! Killing each role at each of its fault points, in the middle of a turn with a tool call.
//!
//! Whatever is killed whenever: the turn ends, no stored answer is asked for again, a call that was
//! lost is charged as lost, and the budget is the sum of the ledger.

use crate::support::{ask_until_halt, begin, door, halting, money, up_with_fault, verify_audit};
use bxcore::transcript::{Entry, TurnOutcome, parse_line};
use bxcore::usage::UsageSource;
use bxcore::wire::loopd::{TurnEvent, WaitReason};
use bxtest::fault::FaultPoint;
use bxtest::home::TestHome;
use bxtest::llama::{Gate, LlamaServer, Reply, Request};
use serde_json::json;
use std::time::{Duration, Instant};

const SESSION: &str = "chat-k";
/// How long a killed role may take to come back and a turn to end.
const RECOVERY: Duration = Duration::from_mins(1);

/// Points that an ordinary turn with one tool call at brokerd passes, with how often at least.
const POINTS: [(&str, usize); 15] = [
    ("loopd.before-commit", 4),
    ("loopd.after-commit", 4),
    ("loopd.after-append", 4),
    ("loopd.before-model-call", 2),
    ("loopd.after-answer", 2),
    ("loopd.before-tool", 1),
    ("loopd.after-tool", 1),
    ("brokerd.before-intent", 1),
    ("brokerd.after-intent", 1),
    ("brokerd.after-run", 1),
    ("brokerd.after-outcome", 1),
    ("brokerd.after-label", 1),
    ("inferproxy.before-send", 2),
    ("inferproxy.mid-stream", 2),
    ("inferproxy.before-receipt", 2),
];

#[test]
fn a_turn_survives_the_death_of_any_role_at_any_point() {
    let whole = std::env::var_os("BXTEST_WHOLE").is_some();
    let mut died = 0;
    for (name, passes) in POINTS {
        // A sample: the first pass of each point; the whole matrix has every pass.
        for nth in 1..=if whole { passes } else { 1 } {
            let point = FaultPoint {
                name: name.to_owned(),
                nth,
            };
            died += usize::from(survives(&point));
        }
    }
    assert!(
        died >= POINTS.len() - 1,
        "only {died} of the faults happened"
    );
}

/// A model that lists a folder once and then answers, whatever it was asked before.
fn model(request: &Request) -> Reply {
    let listed = request
        .messages()
        .iter()
        .any(|message| message["role"] == "tool");
    if listed {
        Reply::text("There are no files.")
    } else {
        Reply::tool_call(
            "call_tool",
            json!({"name": "list_dir", "arguments": {"path": "."}}),
        )
    }
}

/// Runs one turn with a fault armed; whether the fault happened.
fn survives(point: &FaultPoint) -> bool {
    let server = LlamaServer::builder().respond(model).start_blocking();
    let home = TestHome::with_server(&server);
    let up = up_with_fault(&home, point);
    // The answer may reach us or break off with the role that dies; the transcript tells the truth.
    home.cmd("boxmaker")
        .args(["ask", "what is here?", "--session", SESSION])
        .run();
    if !ends(&home) {
        // Killed before anything of the turn was stored: it never was.
        assert!(
            !home.transcript(SESSION).exists() || server.counts().completed == 0,
            "{point}"
        );
        home.cmd("boxmaker")
            .args(["ask", "what is here?", "--session", SESSION])
            .run();
        assert!(ends(&home), "{point}: the turn did not end");
    }
    assert_eq!(up.terminate().code(), Some(0), "{point}");
    check_money(&home, &server, point);
    verify_audit(&home);
    let fired = std::fs::read_to_string(home.path().join("faults.fired"));
    fired.is_ok_and(|text| !text.is_empty())
}

/// Waits until the session's turn has its end in the transcript; false if there is no turn.
fn ends(home: &TestHome) -> bool {
    let deadline = Instant::now() + RECOVERY;
    loop {
        let text = std::fs::read_to_string(home.transcript(SESSION)).unwrap_or_default();
        if text.contains(r#""kind":"turn_end""#) {
            return true;
        }
        let rows = home.cmd("boxmaker").args(["sessions", "--json"]).run();
        let absent = rows.code() == Some(0) && !rows.stdout.contains(SESSION);
        if absent || Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn check_money(home: &TestHome, server: &LlamaServer, point: &FaultPoint) {
    let text = std::fs::read_to_string(home.transcript(SESSION)).unwrap();
    let entries: Vec<_> = text
        .lines()
        .map(|line| parse_line(line).unwrap().entry)
        .collect();
    let answers = entries
        .iter()
        .filter(|entry| matches!(entry, Entry::Assistant(_)))
        .count();
    let tools = entries
        .iter()
        .filter(|entry| matches!(entry, Entry::Tool(_)))
        .count();
    assert!(tools <= 1, "{point}: a tool call has two results");
    let outcomes: Vec<_> = entries
        .iter()
        .filter_map(|entry| match entry {
            Entry::TurnEnd(end) => Some((end.outcome, end.code)),
            _ => None,
        })
        .collect();
    assert_eq!(outcomes, [(TurnOutcome::Completed, None)], "{point}");

    let money = money(home, SESSION);
    let (ledger, lost) = (&money.ledger, money.lost());
    assert_eq!(
        ledger.len(),
        answers + lost,
        "{point}: a row without a call"
    );
    let asked = server.counts().started;
    assert!(
        asked <= ledger.len(),
        "{point}: {asked} calls reached the server, {} are charged",
        ledger.len()
    );
    assert!(lost <= 1, "{point}: {lost} calls were lost by one death");
}

#[test]
fn a_backend_can_be_added_in_the_middle_of_an_answer() {
    let gate = Gate::new();
    let server = LlamaServer::builder()
        .replies([halting(&gate), Reply::text("All of it.")])
        .start_blocking();
    let other = LlamaServer::builder().start_blocking();
    let home = TestHome::with_server(&server);
    let up = home.up();
    let ask = ask_until_halt(&home, SESSION, &gate);
    home.cmd("boxmaker")
        .args(["backend", "add", "other", &other.url()])
        .run()
        .success();
    assert_eq!(ask.wait().code(), Some(0), "{}", ask.stderr());
    let report: serde_json::Value = serde_json::from_str(&ask.stdout()).unwrap();
    assert_eq!(report["answer"], "All of it.");
    assert_eq!(report["usage"]["model_calls"], 2);
    assert_eq!(up.terminate().code(), Some(0));
    assert_eq!(money(&home, SESSION).lost(), 1);
    server.assert_clean();
}

#[test]
fn who_asked_gets_the_answer_of_a_turn_that_loopd_died_in() {
    let gate = Gate::new();
    let server = LlamaServer::builder()
        .replies([halting(&gate), Reply::text("All of it.")])
        .start_blocking();
    let home = TestHome::with_server(&server);
    let up = home.up();
    let ask = ask_until_halt(&home, SESSION, &gate);
    home.kill_role("loopd");
    assert_eq!(ask.wait().code(), Some(0), "{}", ask.stderr());
    let report: serde_json::Value = serde_json::from_str(&ask.stdout()).unwrap();
    assert_eq!(report["answer"], "All of it.");
    assert_eq!(report["usage"]["model_calls"], 2, "{report}");
    assert_eq!(up.terminate().code(), Some(0));
    let money = money(&home, SESSION);
    assert_eq!(money.lost(), 1);
    let told = |key: &str| report["usage"][key].as_u64().unwrap();
    assert_eq!(
        told("prompt_tokens") + told("completion_tokens"),
        money.account.spent.tokens,
        "the report and the ledger are of one mind"
    );
}

#[test]
fn an_answer_that_inferproxy_dies_in_starts_again_once() {
    let gate = Gate::new();
    let server = LlamaServer::builder()
        .replies([
            halting(&gate),
            Reply::text("All of it."),
            halting(&gate),
            halting(&gate),
        ])
        .start_blocking();
    let home = TestHome::with_server(&server);
    let up = home.up();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let again = TurnEvent::Waiting {
        reason: WaitReason::Again,
    };
    let shown = |event: &TurnEvent| matches!(event, TurnEvent::Delta { .. });
    runtime.block_on(async {
        let mut turn = begin(&door(&home), SESSION, "count").await;
        while !shown(&turn.next().await.unwrap()) {}
        home.kill_role("inferproxy");
        let (events, report) = turn.rest().await;
        let retracted = events.iter().position(|event| *event == TurnEvent::Retract);
        let retracted = retracted.expect("what was shown is void");
        assert_eq!(events[retracted + 1], again);
        let said: String = events[retracted..]
            .iter()
            .filter_map(|event| match event {
                TurnEvent::Delta { text } => Some(text.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(said, "All of it.");
        assert_eq!(report.outcome, TurnOutcome::Completed, "{report:?}");
        assert_eq!(report.answer, "All of it.");
        assert_eq!(report.usage.model_calls, 2);

        // A call that dies twice is not made a third time.
        let mut turn = begin(&door(&home), "chat-twice", "count").await;
        while !shown(&turn.next().await.unwrap()) {}
        home.kill_role("inferproxy");
        while turn.next().await.unwrap() != again {}
        while !shown(&turn.next().await.unwrap()) {}
        home.kill_role("inferproxy");
        let (events, report) = turn.rest().await;
        assert!(!events.contains(&again), "{events:?}");
        assert_eq!(report.outcome, TurnOutcome::Failed);
        assert_eq!(report.problem.unwrap().code.as_str(), "role-unreachable");
    });
    assert_eq!(server.counts().started, 4);
    assert_eq!(up.terminate().code(), Some(0));
    let once = money(&home, SESSION);
    let sources: Vec<_> = once.ledger.iter().map(|row| row.source).collect();
    assert_eq!(sources, [UsageSource::Lost, UsageSource::Reported]);
    assert_eq!(money(&home, "chat-twice").lost(), 2);
    server.assert_clean();
}
