//! Killing each role at each of its fault points, in the middle of a turn with a tool call.
//!
//! Whatever is killed whenever: the turn ends, no stored answer is asked for again, a call that was
//! lost is charged as lost, and the budget is the sum of the ledger.

use bxcore::id::{SessionId, TurnId};
use bxcore::transcript::{Entry, parse_line};
use bxcore::usage::{Spend, UsageSource};
use bxtest::fault::FaultPoint;
use bxtest::home::TestHome;
use bxtest::llama::{LlamaServer, Reply, Request};
use loopd::budget::AccountKey;
use loopd::store::{Store, StoreOptions};
use serde_json::json;
use std::time::{Duration, Instant};

const SESSION: &str = "chat-k";
/// How long a killed role may take to come back and a turn to end.
const RECOVERY: Duration = Duration::from_mins(1);

/// Points that an ordinary turn with one tool call at brokerd passes, with how often at least.
const POINTS: [(&str, usize); 13] = [
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
    ("brokerd.after-label", 1),
    ("inferproxy.before-send", 2),
    ("inferproxy.mid-stream", 2),
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
    let log = home.path().join("faults");
    let up = home
        .cmd("boxmaker")
        .arg("up")
        .fault(point)
        .fault_log(&log)
        .spawn();
    up.until("loopd listens", || home.role_pid("loopd").is_some());
    // The answer may reach us or break off with the role that dies; the transcript tells the truth.
    home.cmd("boxmaker")
        .args(["ask", "what is here?", "--session", SESSION])
        .run();
    let session = SessionId::new(SESSION).unwrap();
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
    check_money(&home, &session, &server, point);
    home.cmd("boxmaker")
        .args(["audit", "verify"])
        .run()
        .success();
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

fn check_money(home: &TestHome, session: &SessionId, server: &LlamaServer, point: &FaultPoint) {
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

    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (ledger, account) = runtime.block_on(async {
        let (store, recovery) = Store::open(StoreOptions::in_folder(&home.state_dir())).unwrap();
        assert!(recovery.unfinished.is_empty(), "{point}: {recovery:?}");
        let ledger = store.ledger(session).await.unwrap();
        let key = AccountKey::turn(session, TurnId::FIRST);
        let account = store.account(&key).await.unwrap().unwrap().account;
        store.close().await;
        (ledger, account)
    });
    let sum = ledger
        .iter()
        .fold(Spend::default(), |sum, row| sum.plus(row.charged));
    assert_eq!(
        account.spent, sum,
        "{point}: the budget is not the sum of the ledger"
    );
    assert_eq!(
        account.reserved,
        Spend::default(),
        "{point}: something is still held"
    );
    let lost = ledger
        .iter()
        .filter(|row| row.source == UsageSource::Lost)
        .count();
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
