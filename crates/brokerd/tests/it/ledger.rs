//! The ledger alone: what it refuses, what it keeps, what becomes of a damaged one.

use crate::support::{raise, session, tool};
use brokerd::ledger::{Durability, KEPT_CALLS, Key, Ledger, MAX_ANCESTORS, Recorded, StoredCall};
use bxcore::code::Code;
use bxcore::guardrails::ToolRules;
use bxcore::id::CallId;
use bxcore::label::{Class, Label};
use bxcore::money::MicroUsd;
use bxcore::transcript::CallOutcome;
use bxcore::wire::brokerd::CallResult;
use std::collections::BTreeSet;
use std::path::Path;

fn open(folder: &Path) -> Ledger {
    Ledger::open(&folder.join("brokerd.db")).unwrap()
}

fn register(ledger: &mut Ledger, id: &str, label: Label, parent: Option<&str>) -> Result<(), Code> {
    let (id, parent) = (session(id), parent.map(session));
    let rules = ToolRules::default();
    let row = ledger
        .registered(&id, label, parent.as_ref(), &rules)
        .map_err(|e| e.code())?;
    ledger.begin(Durability::Disk).unwrap();
    ledger.put_session(&id, &row).unwrap();
    ledger.commit().unwrap();
    Ok(())
}

fn label_of(ledger: &Ledger, id: &str) -> Label {
    ledger.session(&session(id)).unwrap().unwrap().label
}

#[test]
fn a_parent_is_stored_once_and_must_be_known() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = &mut open(folder.path());
    assert_eq!(
        register(ledger, "child", Label::OWNER, Some("nobody")),
        Err(Code::BadRequest)
    );
    assert_eq!(
        register(ledger, "self", Label::OWNER, Some("self")),
        Err(Code::BadRequest)
    );
    register(ledger, "root", Label::OWNER, None).unwrap();
    register(ledger, "other", Label::OWNER, None).unwrap();
    register(ledger, "child", Label::BOTTOM, Some("root")).unwrap();
    register(ledger, "child", Label::BOTTOM, Some("root")).unwrap();
    register(ledger, "child", Label::BOTTOM, None).unwrap();
    assert_eq!(
        register(ledger, "child", Label::OWNER, Some("other")),
        Err(Code::BadRequest)
    );
    assert_eq!(
        register(ledger, "root", Label::OWNER, Some("other")),
        Err(Code::BadRequest)
    );
    // What its parent wrote for it is what a child reads first.
    assert_eq!(label_of(ledger, "child"), Label::OWNER);
}

#[test]
fn ancestors_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = &mut open(folder.path());
    register(ledger, "s-0", Label::OWNER, None).unwrap();
    for depth in 1..=MAX_ANCESTORS {
        let parent = format!("s-{}", depth - 1);
        register(ledger, &format!("s-{depth}"), Label::OWNER, Some(&parent)).unwrap();
    }
    let last = format!("s-{MAX_ANCESTORS}");
    assert_eq!(
        register(ledger, "one-more", Label::OWNER, Some(&last)),
        Err(Code::DeniedByGuardrail)
    );
}

#[test]
fn an_ancestors_later_rules_bind_its_children() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = &mut open(folder.path());
    register(ledger, "root", Label::OWNER, None).unwrap();
    register(ledger, "child", Label::OWNER, Some("root")).unwrap();
    let deny = ToolRules {
        deny: BTreeSet::from(["exec".to_owned()]),
        ..ToolRules::default()
    };
    let root = session("root");
    let row = ledger
        .registered(&root, Label::BOTTOM, None, &deny)
        .unwrap();
    ledger.put_session(&root, &row).unwrap();
    let child = ledger.session(&session("child")).unwrap().unwrap();
    assert!(ledger.rules(&child).unwrap().deny.contains("exec"));
    // A child can't be registered with less afterwards; a root's are the owner's to loosen.
    let row = ledger
        .registered(&session("child"), Label::BOTTOM, None, &deny)
        .unwrap();
    ledger.put_session(&session("child"), &row).unwrap();
    let row = ledger
        .registered(
            &session("child"),
            Label::BOTTOM,
            None,
            &ToolRules::default(),
        )
        .unwrap();
    assert!(row.rules.deny.contains("exec"));
    let row = ledger
        .registered(&root, Label::BOTTOM, None, &ToolRules::default())
        .unwrap();
    assert!(row.rules.deny.is_empty());
}

/// The rule holds below the code as well: for a slip in it, and for anyone with a SQL prompt.
#[test]
fn the_database_itself_lets_no_label_fall() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("brokerd.db");
    register(
        &mut open(folder.path()),
        "s",
        Label::new(Class::Private, true),
        None,
    )
    .unwrap();
    let db = rusqlite::Connection::open(&file).unwrap();
    for lowering in [
        "UPDATE sessions SET class = 'public'",
        "UPDATE sessions SET untrusted = 0",
        "UPDATE sessions SET class = 'secret', untrusted = 0",
        "UPDATE sessions SET parent = 's'",
        "UPDATE sessions SET class = 'Public'",
        "DELETE FROM sessions",
    ] {
        db.execute(lowering, []).unwrap_err();
    }
    db.execute("UPDATE sessions SET class = 'secret'", [])
        .unwrap();
    assert_eq!(label_of(&open(folder.path()), "s"), Label::TOP);
}

#[test]
fn a_damaged_or_newer_database_is_refused_with_its_code() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("brokerd.db");
    let code = |file: &Path| Ledger::open(file).unwrap_err().code();
    std::fs::write(&file, b"SQLite format 3\0 and then rubbish").unwrap();
    assert_eq!(code(&file), Code::StateBroken);
    std::fs::remove_file(&file).unwrap();
    drop(open(folder.path()));
    let db = rusqlite::Connection::open(&file).unwrap();
    db.execute_batch("PRAGMA user_version = 99").unwrap();
    assert_eq!(code(&file), Code::StateBroken);
    assert_eq!(
        code(&folder.path().join("no/such/folder")),
        Code::StateBroken
    );
}

fn stored(content: Option<&str>) -> StoredCall {
    StoredCall {
        tool: tool("read_file").to_string(),
        arguments_sha256: "00".into(),
        audit: 1,
        result: content.map(|content| CallResult {
            outcome: CallOutcome::Ok,
            code: None,
            content: content.into(),
            raw_bytes: 1,
            label: Label::OWNER,
            session_label: Label::OWNER,
            audit: Some(1),
            charge: None,
            replayed: false,
        }),
    }
}

#[test]
fn the_first_result_of_a_call_stays_and_old_ones_are_forgotten() {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = open(folder.path());
    let key = |call| Key {
        session: session("s"),
        call: CallId(call),
    };
    assert_eq!(ledger.call(&key(1)).unwrap(), Recorded::New);
    ledger.put_call(&key(1), &stored(None)).unwrap();
    ledger.put_call(&key(1), &stored(Some("first"))).unwrap();
    ledger.put_call(&key(1), &stored(Some("second"))).unwrap();
    assert_eq!(
        ledger.call(&key(1)).unwrap(),
        Recorded::Made(stored(Some("first")))
    );

    ledger
        .put_call(&key(KEPT_CALLS + 1), &stored(Some("late")))
        .unwrap();
    assert_eq!(ledger.call(&key(1)).unwrap(), Recorded::Forgotten);
    assert_eq!(ledger.call(&key(2)).unwrap(), Recorded::New);
    ledger.forget_calls(&session("s")).unwrap();
    assert_eq!(ledger.call(&key(1)).unwrap(), Recorded::New);
}

#[test]
fn what_cannot_be_read_counts_as_the_strictest() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("brokerd.db");
    register(
        &mut open(folder.path()),
        "s",
        raise(Label::BOTTOM).raise,
        None,
    )
    .unwrap();
    let db = rusqlite::Connection::open(&file).unwrap();
    db.execute("UPDATE sessions SET rules = 'garbage'", [])
        .unwrap();
    let ledger = open(folder.path());
    let row = ledger.session(&session("s")).unwrap().unwrap();
    assert_eq!(row.rules.allow, Some(BTreeSet::new()));
}

/// Killed between what is set aside and its intent: the call was not made, and costs nothing. With
/// its intent on record it may have been, and is charged whole.
#[test]
fn what_is_set_aside_is_charged_once_and_only_for_what_may_have_been_made() {
    let folder = tempfile::tempdir().unwrap();
    let mut ledger = open(folder.path());
    let day = |text: &str| text.parse::<jiff::civil::Date>().unwrap();
    let (today, tomorrow) = (day("2026-11-30"), day("2026-12-01"));
    let usd = |micros| MicroUsd::from_micros(micros).unwrap();
    for (intent, tool, day) in [
        (4, "consult", today),
        (5, "consult", today),
        (6, "consult", today),
        (7, "provider:big", tomorrow),
    ] {
        ledger.set_aside(intent, tool, day, usd(500)).unwrap();
    }
    ledger.charge(4, usd(30)).unwrap();
    ledger.charge(4, usd(30)).unwrap();
    let spent = |ledger: &Ledger| {
        let of = |tool, day| ledger.spent(tool, day).unwrap().micros();
        (of("consult", today), of("provider:big", tomorrow))
    };
    assert_eq!(spent(&ledger), (1030, 500));
    drop(ledger);
    let mut ledger = open(folder.path());
    for _ in 0..2 {
        ledger.settle_set_aside(|intent| intent == 6).unwrap();
        assert_eq!(spent(&ledger), (530, 0));
    }
    ledger.charge(6, usd(0)).unwrap();
    assert_eq!(spent(&ledger), (530, 0), "it is settled");
}
