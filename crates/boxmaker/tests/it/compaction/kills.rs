//! Killing loopd around a summary: before its call, after its answer, before and after the record of
//! the new epoch. Either epoch holds, and no more than one call is made again.

use super::{SESSION, SUMMARY, house, is_summary, server};
use crate::support::{asked, kept, money, up_with_fault};
use bxcore::id::EpochId;
use bxcore::transcript::{Entry, TurnOutcome, parse_line};
use bxtest::fault::FaultPoint;
use bxtest::home::TestHome;
use bxtest::llama::{LlamaServer, Reply, Request};
use serde_json::Value;
use std::collections::BTreeSet;

/// Points of loopd, and the first and the last pass of each that is tried: in the middle of them the
/// first summary is asked for, written and committed.
const POINTS: [(&str, usize, usize); 5] = [
    ("loopd.before-model-call", 3, 4),
    ("loopd.after-answer", 3, 4),
    ("loopd.before-commit", 4, 8),
    ("loopd.after-commit", 4, 8),
    ("loopd.after-append", 4, 8),
];

#[test]
fn a_summary_survives_the_death_of_loopd_at_any_point() {
    let mut around = 0;
    for (name, first, last) in POINTS {
        for nth in first..=last {
            let point = FaultPoint {
                name: name.to_owned(),
                nth,
            };
            around += usize::from(survives(&point));
        }
    }
    assert!(around > 0, "no death came between an answer and its record");
}

/// One turn with a fault armed; whether the call for a summary was made once more than there are
/// summaries.
fn survives(point: &FaultPoint) -> bool {
    let server = server("", |_| Reply::text(SUMMARY))
        .new_epochs(3)
        .start_blocking();
    let home = house(&server);
    let up = up_with_fault(&home, point);
    let ask = home
        .cmd("boxmaker")
        .args([
            "ask",
            "--json",
            "--session",
            SESSION,
            "what is in my files?",
        ])
        .run();
    let report = ask.json();
    assert_eq!(report["outcome"], "completed", "{point}: {report}");
    assert_eq!(up.terminate().code(), Some(0), "{point}");
    of_one_mind(&home, &report, point);
    let fired = std::fs::read_to_string(home.path().join("faults.fired"));
    assert!(
        fired.is_ok_and(|text| !text.is_empty()),
        "{point} never came"
    );
    check(&home, &server, point)
}

/// Whether a turn's report says what was charged for it.
fn of_one_mind(home: &TestHome, report: &Value, point: &FaultPoint) {
    let told = |key: &str| report["usage"][key].as_u64().unwrap();
    assert_eq!(
        told("prompt_tokens") + told("completion_tokens"),
        money(home, SESSION).account.spent.tokens,
        "{point}: {report}"
    );
}

#[test]
fn a_summary_that_was_no_use_is_counted_after_a_death_too() {
    let point = FaultPoint {
        name: "loopd.after-answer".to_owned(),
        nth: 4,
    };
    let server = server("", |_| Reply::text("")).start_blocking();
    let home = house(&server);
    let up = up_with_fault(&home, &point);
    let report = asked(&home, SESSION, "what is in my files?");
    assert_eq!(report["outcome"], "completed", "{report}");
    assert_eq!(up.terminate().code(), Some(0));
    let fired = std::fs::read_to_string(home.path().join("faults.fired"));
    assert!(
        fired.is_ok_and(|text| !text.is_empty()),
        "{point} never came"
    );
    of_one_mind(&home, &report, &point);
    server.assert_clean();
}

fn check(home: &TestHome, server: &LlamaServer, point: &FaultPoint) -> bool {
    let text = std::fs::read_to_string(home.transcript(SESSION)).unwrap();
    let mut epoch = EpochId(0);
    let mut told = BTreeSet::new();
    let mut summaries = 0;
    for line in text.lines() {
        match parse_line(line).unwrap().entry {
            Entry::Epoch(next) => {
                assert_eq!(next.epoch, epoch.next(), "{point}");
                epoch = next.epoch;
                if let Some(compacted) = next.compacted {
                    summaries += 1;
                    assert!(told.insert(compacted.model_call), "{point}");
                }
            }
            Entry::Assistant(answer) => assert!(told.insert(answer.model_call), "{point}"),
            Entry::TurnEnd(end) => assert_eq!(end.outcome, TurnOutcome::Completed, "{point}"),
            _ => {}
        }
    }
    assert!(summaries > 0, "{point}: nothing was summed up");
    let money = money(home, SESSION);
    assert_eq!(money.ledger.len(), told.len() + money.lost(), "{point}");
    assert!(money.lost() <= 1, "{point}");
    let requests = server.requests();
    assert!(requests.len() <= money.ledger.len(), "{point}");
    let asked = requests
        .iter()
        .filter(|recorded| is_summary(&recorded.request));
    let asked = asked.count();
    assert!(
        asked <= summaries + 1,
        "{point}: asked {asked} times for {summaries} summaries"
    );
    asked > summaries
}

#[test]
fn a_summary_by_hand_that_loopd_dies_in_is_charged_and_can_be_had_again() {
    for (name, nth) in [
        ("loopd.before-model-call", 3),
        ("loopd.after-answer", 3),
        ("loopd.after-commit", 6),
    ] {
        let point = FaultPoint {
            name: name.to_owned(),
            nth,
        };
        let server = LlamaServer::builder()
            .respond(|request: &Request| {
                let long = "Kettles are blue. ".repeat(40);
                Reply::text(if is_summary(request) { SUMMARY } else { &long })
            })
            .new_epochs(1)
            .start_blocking();
        let home = TestHome::with_server(&server);
        let up = up_with_fault(&home, &point);
        asked(&home, SESSION, "first");
        asked(&home, SESSION, "second");
        let compact = || {
            let args = ["session", "compact", SESSION, "--json"];
            home.cmd("boxmaker").args(args).run()
        };
        compact();
        let fired = std::fs::read_to_string(home.path().join("faults.fired"));
        assert!(
            fired.is_ok_and(|text| !text.is_empty()),
            "{point} never came"
        );
        up.until("loopd is back", || {
            let rows = home.cmd("boxmaker").args(["sessions", "--json"]).run();
            rows.code() == Some(0)
        });
        let is_there = |home: &TestHome| super::compacted(home, SESSION).len();
        if is_there(&home) == 0 {
            compact().success();
        }
        assert_eq!(is_there(&home), 1, "{point}");
        let report = asked(&home, SESSION, "third");
        assert_eq!(report["outcome"], "completed", "{point}: {report}");
        assert_eq!(up.terminate().code(), Some(0), "{point}");
        let ledger = kept(&home, SESSION).ledger;
        let requests = server.requests().len();
        assert!(
            requests <= ledger.len() && ledger.len() <= 5,
            "{point}: {ledger:?}"
        );
        server.assert_clean();
    }
}
