//! Kills: at every batch boundary, with files that lag behind, and with real signals.

use crate::support::*;
use bxcore::id::{ModelCallId, SessionId, TurnId};
use bxcore::transcript::Line;
use bxcore::usage::UsageSource;
use bxtest::fault::FaultPoint;
use loopd::store::{Batch, LostCall, Op, Recovery, Repaired, Store};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

/// A few turns in two sessions, one with a tool call.
fn history() -> Vec<Batch> {
    let (a, b) = (id("chat-a"), id("chat-b"));
    let of = |session: &SessionId| Batch::new(session.clone());
    let turn = |session: &str, turn| format!("turn:{session}:{turn}");
    vec![
        begin(&a, "Hello"),
        of(&a)
            .entry(assistant(1, 1, ""))
            .op(settle(1, spend(40, 1))),
        of(&a)
            .entry(tool(1, 1, SECRET))
            .op(reserve(&turn("chat-a", 1), 2, spend(100, 0))),
        begin(&b, "And I?"),
        of(&a)
            .entry(assistant(1, 2, "Done"))
            .entry(end(1))
            .op(settle(2, spend(60, 0)))
            .op(Op::CloseTurn { turn: TurnId(1) }),
        finish(&b, "You too"),
        of(&a)
            .entry(user(2, &"long ".repeat(2_000)))
            .op(ensure(&turn("chat-a", 2), Some("day"), tokens(1_000)))
            .op(Op::OpenTurn {
                turn: TurnId(2),
                account: key(&turn("chat-a", 2)),
            })
            .op(reserve(&turn("chat-a", 2), 3, spend(1_000, 0))),
    ]
}

fn texts(lines: &[Line]) -> Vec<String> {
    lines
        .iter()
        .map(|line| serde_json::to_string(line).unwrap())
        .collect()
}

/// Every transcript is there, root and ledger agree, and nothing is held any more.
async fn check_state(folder: &Folder, store: &Store, expected: &BTreeMap<SessionId, Vec<String>>) {
    for (session, lines) in expected {
        assert_eq!(
            &texts(&store.load(session).await.unwrap()),
            lines,
            "{session}"
        );
    }
    let ledger = folder.number("SELECT coalesce(sum(tokens), 0) FROM ledger");
    let held = spend(0, 0);
    let (spent, reserved) = spent_and_held(store, "day").await;
    assert_eq!((spent.tokens, reserved), (ledger.unsigned_abs(), held));
}

#[test]
fn what_a_start_puts_right_stays_in_the_journal_until_it_is_synced() {
    let journal = |folder: &Folder| folder.number("SELECT count(*) FROM journal");
    let folder = Folder::new();
    block_on(async {
        let (store, _) = folder.open();
        for batch in history() {
            store.commit(batch).await.unwrap();
        }
        let crashed = folder.crashed();
        store.close().await;
        fs::write(crashed.log(&id("chat-a")), "").unwrap();
        let before = journal(&crashed);
        let (again, recovery) = crashed.open();
        assert!(!recovery.repaired.is_empty(), "{recovery:?}");
        assert!(journal(&crashed) >= before && before > 0);
        again.close().await;
        assert_eq!(journal(&crashed), 0);
    });
}

#[test]
fn a_crash_after_any_batch_loses_nothing_and_charges_once() {
    let folder = Folder::new();
    block_on(async {
        let (store, _) = folder.open();
        let mut expected = BTreeMap::<SessionId, Vec<String>>::new();
        for batch in history() {
            let session = batch.session.clone();
            let committed = store.commit(batch).await.unwrap();
            let lines = expected.entry(session).or_default();
            lines.extend(texts(&committed.lines));
            // Asking makes sure that the files are written.
            let held = spent_and_held(&store, "day").await.1;

            let crash = folder.crashed();
            let (again, recovery) = crash.open();
            let charged = recovery.lost_calls.iter().map(|lost| lost.charged.tokens);
            assert_eq!(charged.sum::<u64>(), held.tokens);
            check_state(&crash, &again, &expected).await;
            assert!(recovery.repaired.is_empty(), "{recovery:?}");
            again.close().await;
            let (again, recovery) = crash.open();
            assert_eq!((recovery.lost_calls, recovery.repaired), (vec![], vec![]));
            check_state(&crash, &again, &expected).await;
        }
    });
}

#[test]
fn a_lost_call_is_told_and_the_turn_is_unfinished() {
    let folder = Folder::new();
    block_on(async {
        let (store, _) = folder.open();
        let session = id("chat-1");
        store.commit(begin(&session, "Hello")).await.unwrap();
        let crash = folder.crashed();
        let (store, recovery) = crash.open();
        let account = key("turn:chat-1:1");
        let lost = LostCall {
            session: session.clone(),
            call: ModelCallId(1),
            account: account.clone(),
            charged: spend(100, 5),
        };
        assert_eq!(recovery.lost_calls, [lost]);
        // Counted as it is charged, as for a call that a turn itself loses.
        let ledger = store.ledger(&session).await.unwrap();
        assert_eq!(ledger.len(), 1);
        assert_eq!(ledger[0].usage.model_calls, 1);
        assert_eq!(ledger[0].usage.tokens(), ledger[0].charged.tokens);
        let [unfinished] = &recovery.unfinished[..] else {
            panic!("{recovery:?}")
        };
        assert_eq!(
            (&unfinished.session, unfinished.turn),
            (&session, TurnId(1))
        );
        assert_eq!(unfinished.account, Some(account.clone()));
        let ledger = store.ledger(&session).await.unwrap();
        assert_eq!(ledger[0].source, UsageSource::Lost);
        // The turn goes on under a new number, on the same account.
        let counters = store.counters(&session).await.unwrap();
        assert_eq!(counters.model_call, ModelCallId(1));
        let again = Batch::new(session.clone())
            .op(Op::OpenTurn {
                turn: TurnId(1),
                account,
            })
            .op(reserve("turn:chat-1:1", 2, spend(50, 0)));
        let committed = store.commit(again).await.unwrap();
        assert_eq!(committed.reserved, Some(Ok(())));
    });
}

/// What a crash of the machine may leave of a file that was never synced.
#[test]
fn a_file_that_lags_behind_the_journal_is_completed() {
    let folder = Folder::new();
    block_on(async {
        let (store, _) = folder.open();
        let mut expected = BTreeMap::<SessionId, Vec<String>>::new();
        for batch in history().into_iter().take(6) {
            let session = batch.session.clone();
            let committed = store.commit(batch).await.unwrap();
            expected
                .entry(session)
                .or_default()
                .extend(texts(&committed.lines));
        }
        spent_and_held(&store, "day").await;
        let session = id("chat-a");
        let whole = fs::read(folder.log(&session)).unwrap();
        let step = whole.len() / 12;
        let mut kept: Vec<usize> = (0..whole.len()).step_by(step).collect();
        kept.extend([1, whole.len() - 1]);
        for kept in kept {
            for filled in [false, true] {
                let crash = folder.crashed();
                let mut bytes = whole[..kept].to_vec();
                if filled {
                    bytes.resize(whole.len(), 0);
                }
                fs::write(crash.log(&session), bytes).unwrap();
                let (again, recovery) = crash.open();
                check_state(&crash, &again, &expected).await;
                let added = (whole.len() - kept) as u64;
                let repairs: Vec<_> = recovery.repaired.iter().map(|r| &r.what).collect();
                assert!(
                    repairs.contains(&&Repaired::Completed { bytes: added }),
                    "{repairs:?}"
                );
                let aside = repairs
                    .iter()
                    .any(|what| matches!(what, Repaired::SetAside { .. }));
                assert_eq!(aside, filled, "what was in the way is kept");
            }
        }
        // The file, and even its folder, may be missing.
        let crash = folder.crashed();
        fs::remove_dir_all(crash.log(&session).parent().unwrap()).unwrap();
        let (again, _) = crash.open();
        check_state(&crash, &again, &expected).await;
    });
}

/// Where the child of the next test finds its state folder; set for the child only.
const CHILD_FOLDER: &str = "LOOPD_TEST_CRASH_FOLDER";

/// The child: makes the history, and notes each batch that it was told is durable.
fn child(folder: &Path) {
    block_on(async {
        let (store, _) = Store::open(options(folder)).unwrap();
        for (n, batch) in history().into_iter().enumerate() {
            store.commit(batch).await.unwrap();
            fs::write(folder.join("told"), (n + 1).to_string()).unwrap();
        }
        store.close().await;
    });
}

#[test]
fn a_kill_at_any_point_keeps_what_was_told() {
    if let Some(folder) = std::env::var_os(CHILD_FOLDER) {
        return child(Path::new(&folder));
    }
    let last = history().len();
    for name in [
        "loopd.before-commit",
        "loopd.after-commit",
        "loopd.after-append",
    ] {
        for nth in 1..=last {
            let folder = Folder::new();
            let point = FaultPoint {
                name: name.to_owned(),
                nth,
            };
            let (variable, value) = point.env();
            let status = Command::new(std::env::current_exe().unwrap())
                .args([
                    "store::crash::a_kill_at_any_point_keeps_what_was_told",
                    "--exact",
                ])
                .env(CHILD_FOLDER, folder.path())
                .env(variable, value)
                .output()
                .unwrap()
                .status;
            assert_eq!(status.signal(), Some(9), "{point} was never passed");
            let told = fs::read_to_string(folder.path().join("told"));
            // Killed while it wrote the file down: then it was about to tell of this pass.
            let told = told.map_or(0, |text| text.parse().unwrap_or(nth - 1));
            let durable = if name == "loopd.before-commit" {
                nth - 1
            } else {
                nth
            };
            assert!(told == nth - 1 || told == durable, "{point}: {told}");
            block_on(check_killed(&folder, durable));
        }
    }
}

/// Exactly the first `durable` batches are there, twice over.
async fn check_killed(folder: &Folder, durable: usize) {
    let mut entries = BTreeMap::<SessionId, usize>::new();
    for batch in history().into_iter().take(durable) {
        *entries.entry(batch.session).or_default() += batch.entries.len();
    }
    let mut before: Option<Recovery> = None;
    for _ in 0..2 {
        let (store, recovery) = folder.open();
        for (session, entries) in &entries {
            assert_eq!(store.load(session).await.unwrap().len(), *entries);
        }
        if durable > 0 {
            let ledger = folder.number("SELECT coalesce(sum(tokens), 0) FROM ledger");
            let spent = spent_and_held(&store, "day").await.0;
            assert_eq!(spent.tokens, ledger.unsigned_abs());
        }
        if let Some(before) = before {
            assert_eq!(recovery.unfinished, before.unfinished);
            assert!(recovery.lost_calls.is_empty());
        }
        before = Some(recovery);
        store.close().await;
    }
}
