//! Checkpoints: when they are written, and what they find.

use crate::support::{TestHome, owner};
use brokerd::audit::CHECKPOINT_RECORDS;
use bxcore::code::Code;
use bxkit::audit_reader::{CHECKPOINT_FILE, Expected, last_checkpoint, read_checkpoint, verify};
use std::path::{Path, PathBuf};

/// Starts it, has some calls decided, and ends it.
async fn live(test: &TestHome, first: u64, calls: u64) {
    let started = test.start();
    started.register("s", owner()).await;
    for number in first..first + calls {
        started.call("s", number, "no_such_tool", "{}").await;
    }
    started.stop().await;
}

fn checkpoints(test: &TestHome) -> Vec<String> {
    let path = test.home.audit_dir().join(CHECKPOINT_FILE);
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// The number in the last checkpoint beside the log.
fn beside(test: &TestHome) -> Option<u64> {
    let last = last_checkpoint(&test.home.audit_dir()).unwrap();
    last.map(|checkpoint| checkpoint.seq)
}

/// Takes the last records off the log, as if they had never been written.
fn cut(test: &TestHome, records: usize) {
    let path = test.segments().pop().unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let kept = lines[..lines.len() - records].join("\n");
    std::fs::write(&path, format!("{kept}\n")).unwrap();
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let to = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &to);
        } else {
            std::fs::copy(&path, &to).unwrap();
        }
    }
}

/// A copy of everything that brokerd keeps.
fn kept(test: &TestHome) -> PathBuf {
    let to = test.beside("kept");
    copy(&test.home.audit_dir(), &to.join("audit"));
    std::fs::copy(test.home.broker_db(), to.join("broker.db")).unwrap();
    to
}

fn put_back(test: &TestHome, kept: &Path) {
    std::fs::remove_dir_all(test.home.audit_dir()).unwrap();
    copy(&kept.join("audit"), &test.home.audit_dir());
    for suffix in ["-wal", "-shm"] {
        let mut path = test.home.broker_db().into_os_string();
        path.push(suffix);
        let _ = std::fs::remove_file(path);
    }
    std::fs::copy(kept.join("broker.db"), test.home.broker_db()).unwrap();
}

fn refused(test: &TestHome) {
    let problem = test.try_open().unwrap_err();
    assert_eq!(problem.code, Code::AuditChainBroken, "{problem}");
    assert!(
        problem.to_string().contains("signed") || problem.to_string().contains("checkpoint"),
        "{problem}"
    );
}

#[tokio::test]
async fn the_log_is_signed_after_many_records_and_at_the_end() {
    let test = TestHome::new();
    live(&test, 1, 3).await;
    let signed = checkpoints(&test);
    assert_eq!(signed.len(), 1);
    // One of the configuration and three of calls, and then the checkpoint's own.
    assert_eq!(read_checkpoint(&signed[0]).unwrap().seq, 4);
    assert_eq!(test.verify().head.seq, 5);
    live(&test, 4, CHECKPOINT_RECORDS + 1).await;
    let signed = checkpoints(&test);
    assert_eq!(signed.len(), 3, "after a thousand, and at the end");
    for line in &signed {
        let expected = Expected::from(&read_checkpoint(line).unwrap());
        verify(&test.home.audit_dir(), Some(&expected)).unwrap();
    }
    test.verify();
}

#[tokio::test]
async fn a_tail_that_was_cut_off_is_found_at_the_next_start() {
    for forgets in [false, true] {
        let test = TestHome::new();
        live(&test, 1, 5).await;
        cut(&test, 2);
        if forgets {
            // The file beside the log is gone as well; the ledger still knows.
            std::fs::remove_file(test.home.audit_dir().join(CHECKPOINT_FILE)).unwrap();
        }
        // The log alone looks whole.
        verify(&test.home.audit_dir(), None).unwrap();
        refused(&test);
    }
}

#[tokio::test]
async fn a_log_that_was_begun_anew_is_found_at_the_next_start() {
    let test = TestHome::new();
    live(&test, 1, 5).await;
    std::fs::remove_dir_all(test.home.audit_dir()).unwrap();
    refused(&test);
}

#[tokio::test]
async fn an_older_full_copy_is_found_against_the_owners_checkpoint() {
    let test = TestHome::new();
    live(&test, 1, 5).await;
    let kept = kept(&test);
    let started = test.start();
    started.register("s", owner()).await;
    started.call("s", 6, "no_such_tool", "{}").await;
    let signed = started.broker.checkpoint().await.unwrap();
    started.stop().await;
    let line = serde_json::to_string(&signed).unwrap();
    let expected = Expected::from(&read_checkpoint(&line).unwrap());
    let folder = test.home.audit_dir();
    verify(&folder, Some(&expected)).unwrap();
    put_back(&test, &kept);
    // Log, file and ledger agree with each other; only what is kept elsewhere tells.
    live(&test, 6, 3).await;
    verify(&folder, None).unwrap();
    verify(&folder, Some(&expected)).unwrap_err();
}

#[tokio::test]
async fn a_checkpoint_that_was_changed_is_none() {
    let test = TestHome::new();
    live(&test, 1, 3).await;
    let path = test.home.audit_dir().join(CHECKPOINT_FILE);
    let line = checkpoints(&test).pop().unwrap();
    let signed: serde_json::Value = serde_json::from_str(&line).unwrap();
    read_checkpoint(&line).unwrap();
    for (key, value) in [
        ("seq", serde_json::json!(3)),
        ("hash", serde_json::json!("ab".repeat(32))),
        ("signature", serde_json::json!("cd".repeat(64))),
        ("key", serde_json::json!("00".repeat(32))),
        ("hash", serde_json::json!("short")),
        ("more", serde_json::json!(1)),
    ] {
        let mut changed = signed.clone();
        changed[key] = value;
        read_checkpoint(&changed.to_string()).unwrap_err();
        std::fs::write(&path, format!("{line}\n{changed}\n")).unwrap();
        assert_eq!(beside(&test), Some(4), "the one before it counts");
    }
    for text in ["", "{}", "null", "\u{0}"] {
        read_checkpoint(text).unwrap_err();
    }
}

/// A crash while the file was written leaves less than a line, or a line that is none; brokerd
/// starts, and goes on with it.
#[tokio::test]
async fn what_a_crash_leaves_beside_the_log_is_passed_over() {
    for (left, whole) in [
        ("", 0),
        ("\n", 0),
        ("{\"seq\":7,\"ha", 0),
        ("{\"seq\":7,\"ha\n", 0),
        ("\u{0}\u{0}\u{0}\n", 0),
        ("LINE\n", 1),
        ("LINE", 1),
        ("LINE\n{\"seq\":7,\"ha", 1),
        ("LINE\n{\"seq\":7,\"ha\n\n", 1),
    ] {
        let test = TestHome::new();
        live(&test, 1, 3).await;
        let path = test.home.audit_dir().join(CHECKPOINT_FILE);
        let line = checkpoints(&test).pop().unwrap();
        std::fs::write(&path, left.replace("LINE", &line)).unwrap();
        assert_eq!(beside(&test).is_some(), whole == 1, "{left:?}");
        live(&test, 4, 1).await;
        live(&test, 5, 1).await;
        test.verify();
        let folder = test.home.audit_dir();
        let expected = Expected::from(&last_checkpoint(&folder).unwrap().unwrap());
        assert!(expected.seq > 3, "{left:?}");
        verify(&folder, Some(&expected)).unwrap();
        let held = checkpoints(&test);
        let held = held.iter().filter(|line| read_checkpoint(line).is_ok());
        assert_eq!(held.count(), whole + 2, "{left:?}");
    }
}

/// What can't be read is not taken for a file without checkpoints, and a pipe is not waited for.
#[tokio::test]
async fn what_is_no_file_beside_the_log_is_an_error() {
    let test = TestHome::new();
    live(&test, 1, 3).await;
    let folder = test.home.audit_dir();
    let path = folder.join(CHECKPOINT_FILE);
    let make: [&dyn Fn(); 3] = [
        &|| std::fs::create_dir(&path).unwrap(),
        &|| std::os::unix::fs::symlink("/dev/zero", &path).unwrap(),
        &|| {
            let mode = rustix::fs::Mode::from_raw_mode(0o600);
            rustix::fs::mkfifoat(rustix::fs::CWD, &path, mode).unwrap();
        },
    ];
    for make in make {
        let _ = std::fs::remove_file(&path);
        let _ = std::fs::remove_dir(&path);
        make();
        last_checkpoint(&folder).unwrap_err();
        let problem = test.try_open().unwrap_err();
        assert_eq!(problem.code, Code::AuditUnavailable, "{problem}");
    }
}

/// The file is not read from its beginning, however long somebody made it.
#[tokio::test]
async fn only_the_end_of_the_file_is_read() {
    let test = TestHome::new();
    live(&test, 1, 3).await;
    let path = test.home.audit_dir().join(CHECKPOINT_FILE);
    let line = checkpoints(&test).pop().unwrap();
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(1 << 40).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, format!("\n{line}").as_bytes(), 1 << 40)
        .unwrap();
    assert_eq!(beside(&test), Some(4));
    live(&test, 4, 1).await;
}
