//! Copies of everything.

use crate::support::*;
use loopd::store::{BackupName, Store, StoreError};
use std::fs;
use std::path::Path;
use std::time::Duration;

async fn backup(store: &Store, name: &str) -> (bxcore::wire::loopd::BackupReport, Folder) {
    let name = BackupName::new(name).unwrap();
    let report = store.backup(name).await.unwrap();
    let restored = Folder::new();
    copy_all(Path::new(&report.folder), restored.path());
    (report, restored)
}

#[test]
fn a_backup_is_a_state_folder_that_opens() {
    let folder = Folder::new();
    block_on(async {
        let (store, _) = folder.open();
        let session = one_turn(&store, "chat-1").await;
        let unfinished = begin(&id("chat-2"), "Under way");
        store.commit(unfinished).await.unwrap();
        let (report, restored) = backup(&store, "first").await;
        let place = folder.path().join("backups/first");
        assert_eq!((report.sessions, Path::new(&report.folder)), (2, &*place));
        one_turn(&store, "chat-3").await;

        let (copy, recovery) = restored.open();
        assert_eq!(copy.load(&session).await.unwrap().len(), 5);
        assert_eq!(copy.sessions().await.unwrap().len(), 2);
        assert_eq!(
            recovery.lost_calls.len(),
            1,
            "a call under way is charged in the copy"
        );
        assert_eq!(recovery.unfinished.len(), 1);
        assert_eq!(store.ledger(&id("chat-2")).await.unwrap(), []);
    });
}

#[test]
fn a_backup_beside_running_turns_is_of_one_moment() {
    let folder = Folder::new();
    block_on(async {
        let mut options = folder.options();
        options.sync_interval = Duration::from_millis(1);
        let (store, _) = Store::open(options).unwrap();
        let busy = store.clone();
        let turns = tokio::spawn(async move {
            for n in 0..200 {
                let session = one_turn(&busy, &format!("chat-{n}")).await;
                if n % 7 == 0 {
                    busy.delete(&session).await.unwrap();
                }
            }
        });
        for n in 0..5 {
            let (report, restored) = backup(&store, &format!("b-{n}")).await;
            let (copy, _) = restored.open();
            let rows = copy.sessions().await.unwrap();
            assert_eq!(rows.len() as u64, report.sessions);
            for row in rows {
                copy.load(&row.id).await.unwrap();
            }
            let root = copy.account(&key("day")).await.unwrap();
            let spent = root.map_or(0, |root| root.account.spent.tokens);
            let ledger = restored.number("SELECT coalesce(sum(tokens), 0) FROM ledger");
            assert_eq!(spent, ledger.unsigned_abs());
        }
        turns.await.unwrap();
    });
}

#[test]
fn names_and_leftovers_of_backups() {
    let long = "a".repeat(65);
    for bad in ["", "..", "a/b", "A", ".hidden", long.as_str()] {
        assert!(BackupName::new(bad).is_err(), "{bad}");
    }
    let folder = Folder::new();
    block_on(async {
        let (store, _) = folder.open();
        one_turn(&store, "chat-1").await;
        let leftover = folder.path().join("backups/.b.partial");
        fs::create_dir_all(leftover.join("sessions")).unwrap();
        backup(&store, "b").await;
        assert!(!leftover.exists());
        let again = store
            .backup(BackupName::new("b").unwrap())
            .await
            .unwrap_err();
        assert!(matches!(again, StoreError::BackupExists { .. }), "{again}");
    });
}
