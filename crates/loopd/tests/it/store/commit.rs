//! What a commit does, and what it refuses.

use crate::support::*;
use bxcore::code::Code;
use bxcore::guardrails::Limits;
use bxcore::id::{CallId, EpochId, ModelCallId, SessionId, TurnId};
use bxcore::label::Label;
use bxcore::transcript::{Entry, User};
use bxcore::usage::UsageSource;
use loopd::store::{Batch, BatchError, Counters, Op, Recovery, Store, StoreError};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

#[test]
fn entries_are_numbered_and_read_back_as_they_were_answered() {
    let folder = Folder::new();
    block_on(async {
        let (store, recovery) = folder.open();
        assert_eq!(recovery, Recovery::default());
        let session = id("chat-1");
        let first = store.commit(begin(&session, "Hello")).await.unwrap();
        assert_eq!(numbers(&first.lines), [1, 2, 3]);
        assert_eq!(first.reserved, Some(Ok(())));
        let second = store.commit(finish(&session, "Hi")).await.unwrap();
        assert_eq!(numbers(&second.lines), [4, 5]);
        assert_eq!(second.reserved, None);

        let lines = store.load(&session).await.unwrap();
        assert_eq!(numbers(&lines), [1, 2, 3, 4, 5]);
        let told: Vec<String> = [first.lines, second.lines]
            .concat()
            .iter()
            .map(|line| serde_json::to_string(line).unwrap())
            .collect();
        let file = std::fs::read_to_string(folder.log(&session)).unwrap();
        assert_eq!(file.lines().collect::<Vec<_>>(), told);
        let counters = store.counters(&session).await.unwrap();
        let expected = Counters {
            turn: TurnId(1),
            epoch: EpochId(1),
            call: CallId(0),
            model_call: ModelCallId(1),
        };
        assert_eq!(counters, expected);
    });
}

#[test]
fn files_are_private() {
    let folder = Folder::new();
    block_on(async {
        let (store, _) = folder.open();
        let session = one_turn(&store, "chat-1").await;
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&folder.log(&session)), 0o600);
        assert_eq!(mode(folder.log(&session).parent().unwrap()), 0o700);
        for name in ["boxmaker.db", "boxmaker.db-wal", "boxmaker.db.lock"] {
            assert_eq!(mode(&folder.path().join(name)), 0o600, "{name}");
        }
    });
}

#[test]
fn a_settled_call_is_in_the_ledger_once() {
    let folder = Folder::new();
    block_on(async {
        let (store, _) = folder.open();
        let session = one_turn(&store, "chat-1").await;
        let ledger = store.ledger(&session).await.unwrap();
        let [row] = &ledger[..] else {
            panic!("{ledger:?}")
        };
        assert_eq!((row.call, row.turn), (ModelCallId(1), Some(TurnId(1))));
        assert_eq!(row.charged, spend(42, 2));
        assert_eq!((row.source, row.overrun), (UsageSource::Reported, false));
        assert_eq!(row.account, "turn:chat-1:1");
        let again = Batch::new(session.clone()).op(settle(1, spend(1, 1)));
        let not_reserved = BatchError::NotReserved(ModelCallId(1));
        assert_refused(store.commit(again).await, &not_reserved);
        assert_eq!(
            spent_and_held(&store, "day").await,
            (spend(42, 2), spend(0, 0))
        );
        assert_eq!(store.account(&key("nobody")).await.unwrap(), None);
    });
}

#[test]
fn a_released_call_costs_nothing_and_its_number_is_used_up() {
    let folder = Folder::new();
    block_on(async {
        let (store, _) = folder.open();
        let session = id("chat-1");
        store.commit(begin(&session, "Hello")).await.unwrap();
        assert_eq!(
            spent_and_held(&store, "day").await,
            (spend(0, 0), spend(100, 5))
        );
        let release = Op::Release {
            call: ModelCallId(1),
        };
        let batch = Batch::new(session.clone()).op(release);
        store.commit(batch).await.unwrap();
        assert!(store.ledger(&session).await.unwrap().is_empty());
        assert_eq!(
            spent_and_held(&store, "day").await,
            (spend(0, 0), spend(0, 0))
        );
        let again = Batch::new(session).op(reserve("day", 1, spend(1, 0)));
        assert_refused(
            store.commit(again).await,
            &BatchError::CallUsed(ModelCallId(1)),
        );
    });
}

#[test]
fn a_refused_reservation_keeps_the_entries_of_its_batch() {
    let folder = Folder::new();
    block_on(async {
        let (store, _) = folder.open();
        let session = id("chat-1");
        let batch = Batch::new(session.clone())
            .entry(open(&session))
            .op(ensure("day", None, tokens(10)))
            .op(reserve("day", 1, spend(11, 0)));
        let committed = store.commit(batch).await.unwrap();
        let refusal = committed.reserved.unwrap().unwrap_err();
        insta::assert_snapshot!(refusal, @"account `day` has a limit of 10 tokens, of which 0 are spent and 0 held for calls under way; 11 more don't fit");
        assert_eq!(refusal.left(), 10);
        assert_eq!(store.load(&session).await.unwrap().len(), 1);
    });
}

/// Batches of session `s`, which has one finished turn, or of `t`, which does not exist.
fn contradictions(s: &SessionId, t: &SessionId) -> Vec<(Batch, BatchError)> {
    let of = |session: &SessionId| Batch::new(session.clone());
    let two_lines = Entry::User(User {
        turn: TurnId(2),
        label: Label::OWNER,
        memory: None,
        message: serde_json::from_str("{\"role\":\"user\",\n\"content\":\"x\"}").unwrap(),
    });
    let account = key("day");
    let open_turn = |turn| Op::OpenTurn {
        turn: TurnId(turn),
        account: account.clone(),
    };
    let close_turn = |turn| Op::CloseTurn { turn: TurnId(turn) };
    let free = |name: &str, parent: Option<&str>| ensure(name, parent, Limits::default());
    let take = |account: &str, call| reserve(account, call, spend(1, 0));
    let many = Batch {
        entries: vec![user(2, "x"); 257],
        ..of(s)
    };
    vec![
        (of(t).entry(user(1, "x")), BatchError::Opening),
        (of(t).op(free("x", None)), BatchError::Opening),
        (of(t).entry(open(s)), BatchError::Opening),
        (of(s).entry(open(s)), BatchError::Opening),
        (of(s).entry(two_lines), BatchError::NotOneLine),
        (many, BatchError::TooMany),
        (of(s).op(open_turn(1)), BatchError::OtherTurn(TurnId(1))),
        (of(s).op(close_turn(7)), BatchError::OtherTurn(TurnId(7))),
        (
            of(s).entry(user(2, "x")).op(close_turn(2)),
            BatchError::TurnNotEnded(TurnId(2)),
        ),
        (
            of(s).op(free("y", Some("x"))),
            BatchError::NoAccount(key("x")),
        ),
        (
            of(s).op(free("turn:chat-1:1", None)),
            BatchError::OtherParent(key("turn:chat-1:1")),
        ),
        (of(s).op(take("x", 9)), BatchError::NoAccount(key("x"))),
        (
            of(s).op(take("day", 9)).op(take("day", 10)),
            BatchError::TwoReservations,
        ),
        (
            of(s).op(settle(9, spend(1, 0))),
            BatchError::NotReserved(ModelCallId(9)),
        ),
        // The last operation fails, after entries and operations that were fine.
        (
            of(s)
                .entry(user(2, "x"))
                .op(free("z", None))
                .op(close_turn(2)),
            BatchError::TurnNotEnded(TurnId(2)),
        ),
    ]
}

#[test]
fn a_batch_that_contradicts_what_is_stored_changes_nothing() {
    let folder = Folder::new();
    block_on(async {
        let (store, _) = folder.open();
        let session = one_turn(&store, "chat-1").await;
        for (batch, expected) in contradictions(&session, &id("chat-2")) {
            assert_refused(store.commit(batch).await, &expected);
        }
        let unknown = store.load(&id("chat-2")).await.unwrap_err();
        assert_eq!(unknown.code(), Code::SessionUnknown);
        assert_eq!(store.load(&session).await.unwrap().len(), 5);
        assert_eq!(store.account(&key("z")).await.unwrap(), None);
        store.close().await;
        let (store, recovery) = folder.open();
        assert_eq!(recovery, Recovery::default());
        assert_eq!(store.load(&session).await.unwrap().len(), 5);
    });
}

#[test]
fn a_chain_of_accounts_has_a_bound() {
    let folder = Folder::new();
    block_on(async {
        let (store, _) = folder.open();
        let session = one_turn(&store, "chat-1").await;
        let mut batch = Batch::new(session.clone()).op(ensure("a-1", None, tokens(5)));
        for depth in 2..=16 {
            let parent = format!("a-{}", depth - 1);
            batch = batch.op(ensure(&format!("a-{depth}"), Some(&parent), tokens(50)));
        }
        store.commit(batch).await.unwrap();
        let deeper = Batch::new(session.clone()).op(ensure("a-17", Some("a-16"), tokens(1)));
        assert_refused(
            store.commit(deeper).await,
            &BatchError::TooDeep(key("a-17")),
        );
        let call = Batch::new(session).op(reserve("a-16", 2, spend(6, 0)));
        let refusal = store
            .commit(call)
            .await
            .unwrap()
            .reserved
            .unwrap()
            .unwrap_err();
        assert_eq!(refusal.account, key("a-1"));
        let deepest = store.account(&key("a-16")).await.unwrap().unwrap();
        assert_eq!(deepest.left, tokens(5));
    });
}

#[test]
fn batches_sent_at_once_are_all_committed_in_their_order() {
    let folder = Folder::new();
    block_on(async {
        let (store, _) = folder.open();
        let mut tasks = tokio::task::JoinSet::new();
        for n in 0..100 {
            let store = store.clone();
            tasks.spawn(async move {
                let session = one_turn(&store, &format!("chat-{n}")).await;
                // One bad batch among the good ones spoils none of them.
                let bad = Batch::new(session.clone()).op(settle(99, spend(1, 0)));
                store.commit(bad).await.unwrap_err();
                let lines = store.load(&session).await.unwrap();
                assert_eq!(numbers(&lines), [1, 2, 3, 4, 5]);
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
        assert_eq!(
            spent_and_held(&store, "day").await,
            (spend(4200, 200), spend(0, 0))
        );
        assert_eq!(folder.number("SELECT sum(tokens) FROM ledger"), 4200);
    });
}

#[test]
fn a_closed_store_says_so_and_has_everything_in_files() {
    let folder = Folder::new();
    block_on(async {
        let (store, _) = folder.open();
        let session = one_turn(&store, "chat-1").await;
        store.close().await;
        store.close().await;
        let late = store.commit(Batch::new(session)).await.unwrap_err();
        assert!(matches!(late, StoreError::Closed), "{late}");
        assert_eq!(folder.number("SELECT count(*) FROM journal"), 0);
    });
}

#[test]
fn a_second_store_is_kept_out_until_the_first_ends() {
    let folder = Folder::new();
    block_on(async {
        let (store, _) = folder.open();
        let refusal = folder.refusal();
        assert_eq!(refusal.code(), Code::HomeHeld);
        one_turn(&store, "chat-1").await;
        store.close().await;
        assert_eq!(folder.open().0.sessions().await.unwrap().len(), 1);
    });
}

#[test]
fn a_store_without_a_handle_ends_by_itself() {
    let folder = Folder::new();
    block_on(async {
        let (store, _) = folder.open();
        let session = one_turn(&store, "chat-1").await;
        drop(store);
        let mut again = None;
        wait_until(|| {
            again = Store::open(folder.options()).ok();
            again.is_some()
        })
        .await;
        let (store, _) = again.unwrap();
        assert_eq!(store.load(&session).await.unwrap().len(), 5);
    });
}

#[test]
fn the_housekeeper_syncs_and_prunes_by_itself() {
    let folder = Folder::new();
    block_on(async {
        let mut options = folder.options();
        options.sync_interval = Duration::from_millis(10);
        let (store, _) = Store::open(options).unwrap();
        let session = one_turn(&store, "chat-1").await;
        wait_until(|| folder.number("SELECT count(*) FROM journal") == 0).await;
        let crash = folder.crashed();
        assert_eq!(crash.open().0.load(&session).await.unwrap().len(), 5);
    });
}

fn assert_refused<T: std::fmt::Debug>(outcome: Result<T, StoreError>, expected: &BatchError) {
    match outcome {
        Err(StoreError::Batch { source, .. }) => assert_eq!(source, *expected),
        other => panic!("expected {expected:?}, got {other:?}"),
    }
}
