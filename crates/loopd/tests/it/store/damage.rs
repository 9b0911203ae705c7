//! Files that somebody or something damaged while no store was open, or while one was.

use crate::support::*;
use bxcore::code::Code;
use bxcore::id::{ModelCallId, SessionId};
use bxcore::wire::loopd::SessionStatus;
use loopd::store::{BackupName, Batch, Repaired, Store};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

/// A folder with sessions `chat-1` and `chat-2`, each with one turn of five entries, everything
/// synced and the journal empty.
fn two_sessions() -> Folder {
    let folder = Folder::new();
    block_on(async {
        let (store, _) = folder.open();
        one_turn(&store, "chat-1").await;
        one_turn(&store, "chat-2").await;
        store.close().await;
    });
    folder
}

/// The lines of a transcript file, each with its line end.
fn lines(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    text.split_inclusive('\n').map(str::to_owned).collect()
}

async fn status(store: &Store, session: &SessionId) -> SessionStatus {
    store.session(session).await.unwrap().status
}

#[test]
fn a_torn_last_line_is_moved_aside_and_the_session_goes_on() {
    for cut in [1, 20, 90] {
        let folder = two_sessions();
        let session = id("chat-1");
        let path = folder.log(&session);
        let whole = fs::read(&path).unwrap();
        // A whole line with nothing but its end cut off counts; see the next test.
        let cut = cut + 1;
        fs::write(&path, &whole[..whole.len() - cut]).unwrap();
        block_on(async {
            let (store, _) = folder.open();
            let before = store.session(&session).await.unwrap();
            assert_eq!(numbers(&store.load(&session).await.unwrap()), [1, 2, 3, 4]);
            let torn = fs::read(path.with_file_name("log.jsonl.torn-1")).unwrap();
            assert_eq!(
                [fs::read(&path).unwrap(), torn].concat(),
                whole[..whole.len() - cut]
            );
            // The turn's end is what was lost, so the turn is open again; no number is used twice.
            let row = store.session(&session).await.unwrap();
            assert_eq!(
                (row.status, row.label),
                (SessionStatus::Running, before.label)
            );
            let again = store.commit(Batch::new(session.clone()).entry(end(1)));
            assert_eq!(numbers(&again.await.unwrap().lines), [5]);
            assert_eq!(
                numbers(&store.load(&session).await.unwrap()),
                [1, 2, 3, 4, 5]
            );
        });
    }
}

#[test]
fn a_last_line_without_its_end_is_whole() {
    let folder = two_sessions();
    let session = id("chat-1");
    let whole = fs::read(folder.log(&session)).unwrap();
    fs::write(folder.log(&session), &whole[..whole.len() - 1]).unwrap();
    block_on(async {
        let (store, _) = folder.open();
        assert_eq!(store.load(&session).await.unwrap().len(), 5);
    });
    assert_eq!(fs::read(folder.log(&session)).unwrap(), whole);
}

#[test]
fn a_label_never_sinks_and_numbers_are_kept_when_an_entry_is_lost() {
    let folder = Folder::new();
    let session = id("chat-1");
    block_on(async {
        let (store, _) = folder.open();
        store.commit(begin(&session, "Hello")).await.unwrap();
        let secret = Batch::new(session.clone()).entry(tool(1, 8, SECRET));
        store.commit(secret).await.unwrap();
        store.close().await;
        let kept = lines(&folder.log(&session))[..3].concat();
        fs::write(folder.log(&session), kept + "{\"v\":1,\"n\":4").unwrap();
        let (store, _) = folder.open();
        assert_eq!(store.load(&session).await.unwrap().len(), 3);
        assert_eq!(store.session(&session).await.unwrap().label, SECRET);
        let counters = store.counters(&session).await.unwrap();
        assert_eq!((counters.call.0, counters.model_call), (8, ModelCallId(1)));
    });
}

/// Damage that nothing can put right: what was done to the file, and what is said of it.
#[test]
fn what_cannot_be_put_right_is_left_alone_and_said() {
    type Damage = fn(&Path);
    let cases: [(&str, Damage); 6] = [
        ("its file is gone", |path| fs::remove_file(path).unwrap()),
        ("it has 3 of 5 entries", |path| {
            fs::write(path, lines(path)[..3].concat()).unwrap();
        }),
        ("it holds no entry", |path| fs::write(path, "").unwrap()),
        ("line 2: not a transcript entry", |path| {
            let text = fs::read_to_string(path).unwrap();
            fs::write(
                path,
                text.replacen("\"kind\":\"epoch\"", "\"kind\":\"epoxy\"", 1),
            )
            .unwrap();
        }),
        ("line 3: has the number 4 instead of 3", |path| {
            let mut lines = lines(path);
            lines.remove(2);
            fs::write(path, lines.concat()).unwrap();
        }),
        ("line 6: written in version 2", |path| {
            let mut file = fs::OpenOptions::new().append(true).open(path).unwrap();
            file.write_all(b"{\"v\":2,\"n\":6,\"kind\":\"new\"}\n")
                .unwrap();
        }),
    ];
    for (says, damage) in cases {
        let folder = two_sessions();
        let (session, other) = (id("chat-1"), id("chat-2"));
        let good = fs::read(folder.log(&session)).unwrap();
        damage(&folder.log(&session));
        let damaged = fs::read(folder.log(&session)).ok();
        block_on(async {
            let (store, _) = folder.open();
            for _ in 0..2 {
                let broken = store.load(&session).await.unwrap_err();
                assert_eq!(broken.code(), Code::TranscriptBroken);
                assert!(broken.to_string().contains(says), "{says}: {broken}");
            }
            let refused = store
                .commit(Batch::new(session.clone()).entry(user(2, "x")))
                .await;
            assert_eq!(refused.unwrap_err().code(), Code::TranscriptBroken);
            assert_eq!(status(&store, &session).await, SessionStatus::Broken);
            assert_eq!(fs::read(folder.log(&session)).ok(), damaged, "left alone");
            // The other session is served as ever.
            assert_eq!(store.load(&other).await.unwrap().len(), 5);
            store.close().await;
            let (store, _) = folder.open();
            assert_eq!(status(&store, &session).await, SessionStatus::Broken);
            // Somebody repairs the file: it is used again. Or gives up: it is deleted.
            fs::write(folder.log(&session), &good).unwrap();
            assert_eq!(store.load(&session).await.unwrap().len(), 5);
            store
                .commit(Batch::new(session.clone()).entry(user(2, "x")))
                .await
                .unwrap();
            assert_eq!(status(&store, &session).await, SessionStatus::Running);
            store.delete(&session).await.unwrap();
        });
    }
}

#[test]
fn damage_of_the_same_length_is_found_when_it_is_read() {
    let folder = two_sessions();
    let session = id("chat-1");
    let text = fs::read_to_string(folder.log(&session)).unwrap();
    block_on(async {
        let (store, _) = folder.open();
        store.load(&session).await.unwrap();
        // Within the last line: torn. Within another: broken.
        fs::write(folder.log(&session), text.replace("turn_end", "turn\0end")).unwrap();
        assert_eq!(store.load(&session).await.unwrap().len(), 4);
        let four = fs::read_to_string(folder.log(&session)).unwrap();
        fs::write(
            folder.log(&session),
            four.replace("\"assistant\"", "\"consultant\""),
        )
        .unwrap();
        let broken = store.load(&session).await;
        assert!(broken.is_err() || broken.unwrap().len() == 3);
    });
}

#[test]
fn a_file_that_is_ahead_of_its_row_is_taken_up() {
    let folder = Folder::new();
    let session = id("chat-1");
    block_on(async {
        let (store, _) = folder.open();
        store.commit(begin(&session, "Hello")).await.unwrap();
        let old = folder.crashed();
        store.commit(finish(&session, "Hi")).await.unwrap();
        store.close().await;
        // The database comes back from an old copy, the transcript does not.
        for name in ["boxmaker.db", "boxmaker.db-wal"] {
            let copy = old.path().join(name);
            if copy.exists() {
                fs::copy(copy, folder.path().join(name)).unwrap();
            }
        }
        let (store, recovery) = folder.open();
        let adopted = Repaired::Adopted { entries: 2 };
        assert!(
            recovery
                .repaired
                .iter()
                .any(|repair| repair.what == adopted),
            "{recovery:?}"
        );
        assert_eq!(store.load(&session).await.unwrap().len(), 5);
        assert_eq!(status(&store, &session).await, SessionStatus::Idle);
        let next = Batch::new(session.clone()).entry(user(2, "x"));
        assert_eq!(numbers(&store.commit(next).await.unwrap().lines), [6]);
    });
}

#[test]
fn a_file_that_changes_under_a_running_store_is_noticed() {
    let folder = Folder::new();
    let session = id("chat-1");
    block_on(async {
        let (store, _) = folder.open();
        store.commit(begin(&session, "Hello")).await.unwrap();
        store.load(&session).await.unwrap();
        // Deleted while it is open: the journal still has all of it.
        fs::remove_dir_all(folder.log(&session).parent().unwrap()).unwrap();
        assert_eq!(store.load(&session).await.unwrap().len(), 3);
        store.commit(finish(&session, "Hi")).await.unwrap();
        assert_eq!(store.load(&session).await.unwrap().len(), 5);
        store.close().await;
        let (store, recovery) = folder.open();
        assert!(recovery.repaired.is_empty(), "{recovery:?}");
        assert_eq!(store.load(&session).await.unwrap().len(), 5);
    });
}

/// The journal no longer has it: what we hold open is kept, nothing is added, and the session rests.
#[test]
fn a_file_that_is_deleted_after_its_sync_is_not_lost_silently() {
    let folder = Folder::new();
    let session = id("chat-1");
    block_on(async {
        let mut options = folder.options();
        options.sync_interval = Duration::from_millis(10);
        let (store, _) = Store::open(options).unwrap();
        store.commit(begin(&session, "Hello")).await.unwrap();
        let journal = || folder.number("SELECT count(*) FROM journal");
        wait_until(|| journal() == 0).await;
        fs::remove_file(folder.log(&session)).unwrap();
        let refused = store.commit(finish(&session, "Hi")).await.unwrap_err();
        assert_eq!(refused.code(), Code::TranscriptBroken, "{refused}");
        assert_eq!(folder.number("SELECT count(broken) FROM sessions"), 1);
        let kept = lines(&folder.log(&session).with_file_name("log.jsonl.torn-1"));
        assert_eq!(kept.len(), 3, "{kept:?}");
        assert_eq!(status(&store, &session).await, SessionStatus::Broken);
        let other = one_turn(&store, "chat-2").await;
        wait_until(|| journal() == 0).await;
        assert_eq!(store.load(&other).await.unwrap().len(), 5);
        // A backup takes what there is.
        let report = store.backup(BackupName::new("b").unwrap()).await.unwrap();
        assert_eq!(report.sessions, 2);
        let copied = Path::new(&report.folder).join("sessions/chat-1/log.jsonl.torn-1");
        assert_eq!(lines(&copied), kept);
    });
}

/// Puts a new file with so many of the old one's lines in its place, as editors do.
fn renewed(path: &Path, count: usize) {
    let new = path.with_extension("new");
    fs::write(&new, lines(path)[..count].concat()).unwrap();
    fs::rename(new, path).unwrap();
}

/// What somebody can do to a transcript while it is open, and what is then said of the session;
/// nothing where it goes on. The journal is empty, so that only the file has its entries.
#[test]
fn a_file_that_is_replaced_while_it_is_open_is_noticed_before_anything_is_added() {
    type Replace = fn(&Path);
    let cases: [(Option<&str>, usize, Replace); 6] = [
        (None, 1, |path| renewed(path, 5)),
        (Some("it has 3 of 5 entries"), 1, |path| renewed(path, 3)),
        (Some("it has 3 of 5 entries"), 0, |path| {
            fs::write(path, lines(path)[..3].concat()).unwrap();
        }),
        (Some("its file is gone"), 1, |path| {
            fs::remove_file(path).unwrap();
        }),
        (Some("its file is a symbolic link"), 0, |path| {
            let elsewhere = path.with_file_name("elsewhere");
            fs::rename(path, &elsewhere).unwrap();
            std::os::unix::fs::symlink(elsewhere, path).unwrap();
        }),
        (Some("its file is no regular file"), 1, |path| {
            fs::remove_file(path).unwrap();
            let made = std::process::Command::new("mkfifo").arg(path).status();
            assert!(made.unwrap().success());
        }),
    ];
    for (says, kept, replace) in cases {
        let folder = Folder::new();
        block_on(async {
            let mut options = folder.options();
            options.sync_interval = Duration::from_millis(1);
            let (store, _) = Store::open(options).unwrap();
            let session = one_turn(&store, "chat-1").await;
            let journal = || folder.number("SELECT count(*) FROM journal");
            wait_until(|| journal() == 0).await;
            let path = folder.log(&session);
            let whole = fs::read(&path).unwrap();
            replace(&path);
            let next = Batch::new(session.clone()).entry(user(2, "x"));
            match (store.commit(next).await, says) {
                (Ok(_), None) => {
                    assert_eq!(store.load(&session).await.unwrap().len(), 6);
                    wait_until(|| lines(&path).len() == 6).await;
                }
                (Err(error), Some(says)) => {
                    assert_eq!(error.code(), Code::TranscriptBroken, "{says}: {error}");
                    assert!(error.to_string().contains(says), "{says}: {error}");
                    let broken = store.load(&session).await.unwrap_err();
                    assert_eq!(broken.code(), Code::TranscriptBroken, "{says}: {broken}");
                }
                (other, _) => panic!("{says:?}: {other:?}"),
            }
            // The transcript as it was, where no name led to it any more.
            let torn = fs::read(path.with_file_name("log.jsonl.torn-1"));
            assert_eq!(torn.is_ok(), kept > 0, "{says:?}");
            assert!(torn.is_err() || torn.unwrap() == whole, "{says:?}");
            // Others are served as ever.
            let other = one_turn(&store, "chat-2").await;
            assert_eq!(store.load(&other).await.unwrap().len(), 5);
            store.close().await;
        });
    }
}

#[test]
fn a_database_that_cannot_be_used_is_refused_with_its_code() {
    type Damage = fn(&Path);
    let cases: [(&str, Damage); 5] = [
        ("not a database", |db| {
            fs::write(db, "half written").unwrap();
        }),
        ("malformed", |db| {
            let bytes = fs::read(db).unwrap();
            fs::write(db, &bytes[..bytes.len() / 2]).unwrap();
        }),
        ("another program", |db| {
            fs::remove_file(db).unwrap();
            rusqlite::Connection::open(db)
                .unwrap()
                .execute_batch("CREATE TABLE x (y)")
                .unwrap();
        }),
        ("version 99", |db| {
            let sql = rusqlite::Connection::open(db).unwrap();
            sql.pragma_update(None, "user_version", 99).unwrap();
        }),
        ("it is damaged", |db| {
            let mut bytes = fs::read(db).unwrap();
            bytes[8192..12_288].fill(0xa5);
            fs::write(db, bytes).unwrap();
        }),
    ];
    for (says, damage) in cases {
        let folder = two_sessions();
        damage(&folder.db());
        let refusal = folder.refusal();
        assert_eq!(refusal.code(), Code::StateBroken, "{refusal}");
        assert!(refusal.to_string().contains(says), "{says}: {refusal}");
        // Nothing was changed by looking, and the transcripts make a new database.
        folder.remove_db();
        block_on(async {
            let (store, recovery) = folder.open();
            assert_eq!(recovery.repaired.len(), 2);
            assert_eq!(store.sessions().await.unwrap().len(), 2);
        });
    }
}
