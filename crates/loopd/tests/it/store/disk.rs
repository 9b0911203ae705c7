//! A full disk: nothing is half done, and it goes on when there is space again.

use crate::support::*;
use bxcore::code::Code;
use bxcore::id::SessionId;
use loopd::store::{Batch, Store, StoreError};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Commits messages of 20 kB until the disk is full; gives the error and how many were kept.
async fn fill(store: &Store, session: &SessionId) -> (StoreError, u64) {
    let text = "x".repeat(20_000);
    for kept in 0..1_000 {
        let batch = Batch::new(session.clone()).entry(user(kept + 1, &text));
        if let Err(error) = store.commit(batch).await {
            return (error, kept);
        }
    }
    panic!("the disk is never full");
}

#[test]
fn a_full_database_refuses_and_serves_again() {
    let folder = Folder::new();
    let mut options = folder.options();
    options.max_db_pages = Some(60);
    block_on(async {
        let (store, _) = Store::open(options).unwrap();
        let filler = one_turn(&store, "filler").await;
        let session = one_turn(&store, "chat-1").await;
        let (error, kept) = fill(&store, &filler).await;
        assert_eq!(error.code(), Code::DiskFull, "{error}");
        assert_eq!(store.load(&filler).await.unwrap().len() as u64, 5 + kept);
        // Others of the group are committed if they fit: here two at once, one of them too large.
        let large = Batch::new(filler.clone()).entry(user(99, &"x".repeat(100_000)));
        let small = Batch::new(session.clone()).entry(user(2, "x"));
        let (large, small) = tokio::join!(store.commit(large), store.commit(small));
        assert_eq!(large.unwrap_err().code(), Code::DiskFull);
        assert_eq!(numbers(&small.unwrap().lines), [6]);
        store.delete(&filler).await.unwrap();
        let again = Batch::new(session.clone()).entry(user(3, &"x".repeat(20_000)));
        assert_eq!(numbers(&store.commit(again).await.unwrap().lines), [7]);
        store.close().await;
        assert_eq!(folder.open().0.load(&session).await.unwrap().len(), 7);
    });
}

/// Where the child of the next test finds its small disk; set for the child only.
const CHILD_DISK: &str = "LOOPD_TEST_SMALL_DISK";

#[test]
fn a_full_disk_loses_nothing_that_was_told() {
    if let Some(disk) = std::env::var_os(CHILD_DISK) {
        return block_on(on_a_small_disk(Path::new(&disk)));
    }
    let folder = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs -o size=1536k,mode=700 tmpfs \"$0\" && exec \"$@\"";
    let child = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", script])
        .arg(folder.path())
        .arg(std::env::current_exe().unwrap())
        .args([
            "store::disk::a_full_disk_loses_nothing_that_was_told",
            "--exact",
            "--nocapture",
        ])
        .env(CHILD_DISK, folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    let complained = String::from_utf8_lossy(&child.stderr);
    assert!(
        child.status.success(),
        "where no small disk can be mounted, type: \
         sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0\n{said}{complained}"
    );
    assert!(said.contains("1 passed"), "the child ran nothing: {said}");
}

async fn on_a_small_disk(disk: &Path) {
    let state = disk.join("state");
    fs::create_dir(&state).unwrap();
    let (store, _) = Store::open(options(&state)).unwrap();
    let session = one_turn(&store, "chat-1").await;
    let (error, kept) = fill(&store, &session).await;
    assert_eq!(error.code(), Code::DiskFull, "{error}");
    assert!(kept > 3, "the disk is too small to tell anything");
    // Every message that was told to be durable is read, from file and journal together.
    let told = 5 + kept;
    assert_eq!(store.load(&session).await.unwrap().len() as u64, told);
    let log = store.raw_log(&session).await.unwrap();
    assert!(log.total_bytes() > 20_000 * kept);

    // Opening it again on the full disk either works or says why, and never harms.
    store.close().await;
    match Store::open(options(&state)) {
        Ok((store, _)) => {
            assert_eq!(store.load(&session).await.unwrap().len() as u64, told);
            store.close().await;
        }
        Err(error) => assert_eq!(error.code(), Code::DiskFull, "{error}"),
    }
    make_room(disk, &state);
    let (store, recovery) = Store::open(options(&state)).unwrap();
    assert!(recovery.lost_calls.is_empty());
    assert_eq!(store.load(&session).await.unwrap().len() as u64, told);
    let more = Batch::new(session.clone()).entry(user(500, "There is room again"));
    store.commit(more).await.unwrap();
    store.close().await;
    let (store, recovery) = Store::open(options(&state)).unwrap();
    assert!(recovery.repaired.is_empty(), "{recovery:?}");
    assert_eq!(store.load(&session).await.unwrap().len() as u64, told + 1);
}

/// Gives the small disk more space.
fn make_room(disk: &Path, state: &Path) {
    assert!(state.starts_with(disk));
    let grown = Command::new("mount")
        .args(["-o", "remount,size=16m"])
        .arg(disk)
        .status()
        .unwrap();
    assert!(grown.success());
}
