//! Removing sessions.

use crate::support::*;
use bxcore::code::Code;
use bxcore::id::ModelCallId;
use loopd::store::{Batch, Op};
use std::fs;

#[test]
fn a_deleted_session_is_gone_and_its_ledger_is_not() {
    let folder = Folder::new();
    block_on(async {
        let (store, _) = folder.open();
        let session = id("chat-1");
        let batch = begin(&session, "the swordfish phrase");
        store.commit(batch).await.unwrap();
        store.commit(finish(&session, "Hi")).await.unwrap();
        let other = one_turn(&store, "chat-2").await;
        store.delete(&session).await.unwrap();
        assert!(!folder.log(&session).parent().unwrap().exists());
        for gone in [
            store.load(&session).await.unwrap_err(),
            store.delete(&session).await.unwrap_err(),
        ] {
            assert_eq!(gone.code(), Code::SessionUnknown);
        }
        assert_eq!(store.ledger(&session).await.unwrap().len(), 1);
        assert_eq!(store.load(&other).await.unwrap().len(), 5);
        assert_eq!(store.sessions().await.unwrap().len(), 1);
        store.close().await;
        for name in ["boxmaker.db", "boxmaker.db-wal"] {
            let bytes = fs::read(folder.path().join(name)).unwrap_or_default();
            let found = bytes.windows(9).any(|window| window == b"swordfish");
            assert!(!found, "what it said is still in {name}");
        }
    });
}

#[test]
fn a_session_of_the_same_name_starts_empty_and_uses_no_number_twice() {
    let folder = Folder::new();
    block_on(async {
        let (store, _) = folder.open();
        let session = one_turn(&store, "notes").await;
        let before = store.counters(&session).await.unwrap();
        store.delete(&session).await.unwrap();
        assert_eq!(store.counters(&session).await.unwrap(), before);
        let batch = Batch::new(session.clone())
            .entry(open(&session))
            .entry(user(2, "again"))
            .op(reserve("day", 2, spend(1, 0)));
        store.commit(batch).await.unwrap();
        assert_eq!(store.session(&session).await.unwrap().turns, 1);
        assert_eq!(numbers(&store.load(&session).await.unwrap()), [1, 2]);
    });
}

#[test]
fn a_session_with_a_call_under_way_stays() {
    let folder = Folder::new();
    block_on(async {
        let (store, _) = folder.open();
        let session = id("chat-1");
        store.commit(begin(&session, "Hello")).await.unwrap();
        let busy = store.delete(&session).await.unwrap_err();
        assert_eq!(busy.code(), Code::SessionHeld);
        let release = Op::Release {
            call: ModelCallId(1),
        };
        let batch = Batch::new(session.clone()).op(release);
        store.commit(batch).await.unwrap();
        store.delete(&session).await.unwrap();
    });
}

#[test]
fn an_interrupted_deletion_is_ended_at_the_next_start() {
    let folder = Folder::new();
    block_on(async {
        let (store, _) = folder.open();
        let session = one_turn(&store, "chat-1").await;
        let crash = folder.crashed();
        let moved = crash.path().join("sessions/.deleted-chat-1");
        fs::rename(crash.log(&session).parent().unwrap(), &moved).unwrap();
        let (store, recovery) = crash.open();
        assert!(recovery.repaired.is_empty());
        assert!(store.sessions().await.unwrap().is_empty());
        assert!(!moved.exists());
        assert_eq!(store.counters(&session).await.unwrap().turn.0, 1);
    });
}
