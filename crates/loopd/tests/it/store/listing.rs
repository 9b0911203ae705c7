//! The index of sessions.

use crate::support::*;
use bxcore::code::Code;
use bxcore::label::Label;
use bxcore::wire::loopd::SessionStatus;
use loopd::store::Batch;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

#[test]
fn a_row_says_what_the_transcript_does() {
    let folder = Folder::new();
    block_on(async {
        let (store, _) = folder.open();
        let session = id("chat-1");
        let batch = begin(&session, "What is this?\nMore.");
        store.commit(batch).await.unwrap();
        let row = store.session(&session).await.unwrap();
        assert_eq!((row.status, row.turns), (SessionStatus::Running, 1));
        assert_eq!(
            (row.title.as_str(), row.label),
            ("What is this?", Label::OWNER)
        );
        let secret = Batch::new(session.clone()).entry(tool(1, 1, SECRET));
        store.commit(secret).await.unwrap();
        store.commit(finish(&session, "Hi")).await.unwrap();
        let row = store.session(&session).await.unwrap();
        assert_eq!((row.status, row.label), (SessionStatus::Idle, SECRET));
        let last = store.load(&session).await.unwrap().pop().unwrap();
        assert_eq!(row.updated, last.ts);
        assert_eq!(store.sessions().await.unwrap(), [row]);
        let unknown = store.session(&id("nobody")).await.unwrap_err();
        assert_eq!(unknown.code(), Code::SessionUnknown);
    });
}

#[test]
fn the_index_is_made_anew_from_the_transcripts() {
    let folder = Folder::new();
    block_on(async {
        let (store, _) = folder.open();
        one_turn(&store, "chat-1").await;
        let unfinished = begin(&id("chat-2"), "Unfinished");
        store.commit(unfinished).await.unwrap();
        let mut before = store.sessions().await.unwrap();
        store.close().await;
        folder.remove_db();

        let (store, recovery) = folder.open();
        let mut rows = store.sessions().await.unwrap();
        for rows in [&mut rows, &mut before] {
            rows.sort_by(|a, b| a.id.cmp(&b.id));
        }
        assert_eq!(rows, before);
        assert_eq!(recovery.repaired.len(), 2);
        let [unfinished] = &recovery.unfinished[..] else {
            panic!("{recovery:?}")
        };
        assert_eq!(
            (unfinished.session.as_str(), &unfinished.account),
            ("chat-2", &None)
        );
        let counters = store.counters(&id("chat-1")).await.unwrap();
        assert_eq!(counters.model_call.0, 1);
        store.close().await;
        assert!(
            folder.open().1.repaired.is_empty(),
            "a second start has nothing to do"
        );
    });
}

/// Ten thousand sessions are listed from the index: their transcripts are not even there.
#[test]
fn many_sessions_are_listed_without_their_transcripts() {
    const SESSIONS: usize = 10_000;
    let folder = Folder::new();
    block_on(async {
        folder.open().0.close().await;
        let mut sql = String::from("BEGIN;");
        for n in 0..SESSIONS {
            write!(
                sql,
                "INSERT INTO sessions VALUES ({n}, 'chat-{n}', NULL, 'private', 0, 'Title {n}',
                 '2026-11-30T18:05:00.000Z', 5, 1000, 1, 1, 1, 0, 1, NULL, NULL, NULL);"
            )
            .unwrap();
        }
        folder.sql().execute_batch(&(sql + "COMMIT;")).unwrap();
        let begun = Instant::now();
        let (store, recovery) = folder.open();
        assert!(recovery.repaired.is_empty());
        assert_eq!(store.sessions().await.unwrap().len(), SESSIONS);
        let taken = begun.elapsed();
        assert!(taken < Duration::from_secs(10), "{taken:?}");
    });
}
