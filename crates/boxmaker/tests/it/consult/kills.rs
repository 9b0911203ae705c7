//! A house that dies on the way of a question: never a byte without its record, never twice, and what
//! was paid is not lost.

use super::House;
use crate::support::{MOST_CALLS, audit_records, killed_at_call, up_with_fault, verify_audit};
use bxcore::money::MicroUsd;
use bxtest::fault::FaultPoint;
use bxtest::provider::Answer;
use serde_json::Value;

/// Killed between the record and the first byte, or after the last: nothing is ever sent without
/// its intent on disk, and an intent without an outcome is told as unknown.
#[test]
fn a_kill_on_the_way_out_leaves_no_byte_without_its_intent() {
    // What nobody can tell is charged for all that was set aside, and nothing twice.
    const WHOLE: &str = "0.500000";
    const COUNTED: &str = "0.006000";
    for (point, is_cut, cost) in [
        ("brokerd.before-intent", false, COUNTED),
        ("brokerd.after-intent", true, WHOLE),
        ("brokerd.before-send", true, WHOLE),
        ("brokerd.after-send", true, WHOLE),
        // The ledger has the result already, and only the log does not.
        ("brokerd.after-label", true, COUNTED),
        ("brokerd.after-outcome", false, COUNTED),
    ] {
        let house = House::new("", |_| Answer::says("Rayleigh scattering.", 1000, 200));
        let home = &house.home;
        let fault = FaultPoint::first(point);
        let up = up_with_fault(home, &fault);
        let asked = house.ask("chat-k");
        assert_eq!(asked["outcome"], "completed", "{point}: {asked}");
        assert_eq!(up.terminate().code(), Some(0), "{point}");
        let records = audit_records(home);
        let of_consult = |record: &&Value| record["tool"] == "consult";
        let recorded: Vec<&str> = records
            .iter()
            .filter(of_consult)
            .filter(|record| record["kind"] == "intent")
            .map(|record| record["body"].as_str().unwrap())
            .collect();
        let seen = house.provider.seen();
        for seen in &seen {
            let body = std::str::from_utf8(&seen.body).unwrap();
            assert!(recorded.contains(&body), "{point}: sent without an intent");
        }
        assert_eq!(recorded.len(), 1, "{point}: asked again");
        assert!(seen.len() <= 1, "{point}: sent again");
        let unknown = records
            .iter()
            .filter(|record| record["outcome"] == "unknown");
        assert_eq!(unknown.count(), usize::from(is_cut), "{point}: {asked}");
        assert_eq!(asked["cost_usd"], cost, "{point}: {asked}");
        // brokerd's own count of the day has the call once.
        let db = rusqlite::Connection::open(home.state_dir().join("brokerd.db")).unwrap();
        let sql = "SELECT sum(micros) FROM spending";
        let micros: i64 = db.query_row(sql, [], |row| row.get(0)).unwrap();
        assert_eq!(
            MicroUsd::from_micros(micros).unwrap().to_string(),
            cost,
            "{point}"
        );
        verify_audit(home);
    }
}

/// loopd dies with an answer that is paid, and there is no money for another one: the turn that goes
/// on has the answer from brokerd's record, and nothing is charged or sent twice.
#[test]
fn a_paid_answer_outlives_loopd_where_no_second_one_could_be_paid() {
    let loopd = "[guardrails]\nusd = \"0.60\"\n";
    let house = House::new(loopd, |_| Answer::says("Rayleigh scattering.", 1000, 200));
    let home = &house.home;
    let fault = FaultPoint {
        nth: 2,
        ..FaultPoint::first("loopd.after-tool")
    };
    let up = up_with_fault(home, &fault);
    let asked = house.ask("chat-r");
    assert_eq!(asked["outcome"], "completed", "{asked}");
    let calls = asked["calls"].as_array().unwrap().iter();
    let consulted: Vec<_> = calls.filter(|call| call["tool"] == "consult").collect();
    assert_eq!(consulted.len(), 1, "{asked}");
    assert_eq!(consulted[0]["outcome"], "ok", "{asked}");
    assert_eq!(house.provider.connections(), 1);
    // What loopd had set aside when it died is charged whole, once.
    assert_eq!(asked["cost_usd"], "0.500000", "{asked}");
    assert_eq!(up.terminate().code(), Some(0));
    verify_audit(home);
    house.server.assert_clean();
}

/// Killed as it enters the nth call to the system, by any of its threads, that writes, syncs,
/// connects, sends or receives: never is a byte sent without its intent on disk, never twice.
/// Each number is tried, up to the first that no thread reaches.
#[test]
fn a_kill_at_any_system_call_leaves_no_byte_without_its_intent() {
    let (mut died, mut sent) = (0, 0);
    for number in 1..MOST_CALLS {
        let house = House::new("", |_| Answer::says("Rayleigh scattering.", 1000, 200));
        let home = &house.home;
        let survived = killed_at_call(home, number, || {
            home.cmd("boxmaker")
                .args(["ask", "Why is the sky blue?", "--session", "chat-s"])
                .run();
        });
        died += usize::from(!survived);
        let records = audit_records(home);
        let recorded: Vec<&str> = records
            .iter()
            .filter(|record| record["tool"] == "consult" && record["kind"] == "intent")
            .map(|record| record["body"].as_str().unwrap())
            .collect();
        let seen = house.provider.seen();
        for seen in &seen {
            let body = std::str::from_utf8(&seen.body).unwrap();
            assert!(
                recorded.contains(&body),
                "call {number}: sent without an intent"
            );
        }
        assert!(recorded.len() <= 1, "call {number}: asked again");
        assert!(seen.len() <= 1, "call {number}: sent again");
        sent += seen.len();
        // What began has its end on record, or is told as unknown.
        let outcomes = records.iter().filter(|record| record["kind"] == "outcome");
        assert_eq!(outcomes.count(), recorded.len(), "call {number}");
        verify_audit(home);
        if survived {
            break;
        }
    }
    assert!(died >= 8 && sent >= 1, "{died} died, {sent} sent");
}
