//! A log that can't be written stops everything, at once and for good.

use crate::support::{TestHome, owner, request, session};
use bxcore::code::Code;
use std::path::Path;
use std::process::Command;

/// Where the process that runs under strace finds its home.
const HOME_VARIABLE: &str = "BROKERD_TEST_FAULT_HOME";

#[tokio::test]
async fn a_segment_that_is_removed_or_replaced_stops_all_granting() {
    for replace in [false, true] {
        let test = TestHome::new();
        let started = test.start();
        started.register("s", owner()).await;
        let segment = test.segments().remove(0);
        let copy = std::fs::read(&segment).unwrap();
        std::fs::remove_file(&segment).unwrap();
        if replace {
            std::fs::write(&segment, copy).unwrap();
        }
        for call in 1..3 {
            let problem = started
                .broker
                .call(request("s", call, "list_dir", "{}"))
                .await
                .unwrap_err();
            assert_eq!(problem.code, Code::AuditUnavailable);
        }
        let problem = started.broker.authority(session("s")).await.unwrap_err();
        assert_eq!(problem.code, Code::AuditUnavailable);
        let halted = started.halted.lock().unwrap().clone();
        assert_eq!(
            halted.map(|problem| problem.code),
            Some(Code::AuditUnavailable)
        );
        started.stop().await;
    }
}

/// How many calls are made under strace.
const CALLS: u64 = 12;

/// Not a test by itself: what the tests below run in a process of its own.
#[tokio::test]
async fn under_strace() {
    let Some(root) = std::env::var_os(HOME_VARIABLE) else {
        return;
    };
    let test = TestHome::at(Path::new(&root));
    let started = test.start();
    started.register("s", owner()).await;
    let mut codes = Vec::new();
    for call in 1..=CALLS {
        let answer = started
            .broker
            .call(request("s", call, "list_dir", "{}"))
            .await;
        codes.push(answer.map_or_else(|problem| problem.code.as_str(), |_| "ok"));
    }
    let halted = started.halted.lock().unwrap().is_some();
    eprintln!("CODES {} {halted}", codes.join(" "));
    started.stop().await;
}

/// Runs calls in a process whose system calls on one file fail as told; gives what they answered,
/// and whether everything was halted.
fn under_fault(test: &TestHome, file: &Path, fault: &str) -> (Vec<String>, bool) {
    let output = Command::new("strace")
        .args(["-f", "-qq", "-o", "/dev/null", "-P"])
        .arg(file)
        .arg("-e")
        .arg(format!("inject={fault}"))
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "disk_faults::under_strace", "--nocapture"])
        .env(HOME_VARIABLE, test.root.path())
        .output()
        .expect("strace is needed for this test: apt-get install strace");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = said.lines().find_map(|line| line.strip_prefix("CODES "));
    let words = line.unwrap_or_else(|| panic!("{fault}: {said}")).split(' ');
    let mut codes: Vec<String> = words.map(str::to_owned).collect();
    let halted = codes.pop().unwrap() == "true";
    (codes, halted)
}

/// A home whose files are there already: faults then hit calls, not the making of the files.
fn made() -> TestHome {
    let test = TestHome::new();
    drop(test.try_open().unwrap());
    test
}

#[test]
fn a_log_that_fails_under_the_calls_stops_them_all() {
    // strace counts by thread: the first write and sync of the keeper's thread are the first
    // call's intent, the second write is its outcome, the second sync a later one.
    for (fault, first) in [
        ("write:error=EIO:when=2+", Code::AuditUnavailable.as_str()),
        ("write:error=ENOSPC:when=2", Code::AuditUnavailable.as_str()),
        ("fdatasync:error=EIO:when=2+", "ok"),
        // One failure is enough: nothing is tried again.
        ("fdatasync:error=EIO:when=2", "ok"),
    ] {
        let test = made();
        let segment = test.segments().remove(0);
        let (codes, halted) = under_fault(&test, &segment, fault);
        assert_eq!(codes[0], first, "{fault}: {codes:?}");
        let rest = &codes[1..];
        assert!(
            rest.iter().all(|code| code == "audit-unavailable"),
            "{fault}: {codes:?}"
        );
        assert!(halted, "{fault}");
        // What is on disk still holds, and the next start goes on with it.
        test.start_and_stop();
        test.verify();
    }
}

#[test]
fn a_ledger_without_space_fails_its_calls_and_serves_again_later() {
    let test = made();
    let wal = test.home.state_dir().join("brokerd.db-wal");
    // Two writes for each commit of the keeper's, the session's own first.
    let (codes, halted) = under_fault(&test, &wal, "pwrite64:error=ENOSPC:when=20");
    let failed = codes.iter().filter(|code| *code == "disk-full").count();
    let fine = codes.iter().filter(|code| *code == "ok").count();
    assert_eq!((failed, failed + fine), (1, codes.len()), "{codes:?}");
    assert_eq!(codes.last().map(String::as_str), Some("ok"));
    assert!(!halted);
    test.start_and_stop();
    test.verify();
}
