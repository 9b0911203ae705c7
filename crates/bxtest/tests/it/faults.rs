//! Fault injection: fault points from a log, failing calls, a full disk.

use bxtest::fault::{FaultPoint, Inject, SmallDisk, Strace, hits, sweep};
use bxtest::home::TestHome;
use std::path::Path;

const SHELL: &str = "/bin/sh";

#[test]
fn a_sweep_goes_through_every_point_passed() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    assert!(hits(&log).is_empty());
    assert!(
        std::panic::catch_unwind(|| sweep(&log, 3)).is_err(),
        "nothing to sweep over"
    );
    std::fs::write(
        &log,
        "loopd.b 1\nloopd.a 1\nloopd.b 2\nloopd.b 3\nloopd.b 1\n",
    )
    .unwrap();
    let points: Vec<String> = sweep(&log, 2).iter().map(FaultPoint::to_string).collect();
    assert_eq!(points, ["loopd.a:1", "loopd.b:1", "loopd.b:2"]);
    assert_eq!(
        FaultPoint::first("x").env(),
        ("BOXMAKER_FAULT", "x:1".to_owned())
    );
}

#[test]
fn a_system_call_fails_when_told_to() {
    let home = TestHome::new();
    let file = home.path().join("file");
    std::fs::write(&file, "x").unwrap();
    let strace = Strace::new()
        .inject(Inject::failing_sync().only(2))
        .on_path(&file);
    let script = "for i in 1 2 3; do sync \"$0\" 2>/dev/null; echo $?; done";
    let sync = home
        .program(Path::new(SHELL))
        .args(["-c", script])
        .arg(&file);
    // Each `sync` is a process of its own and counts anew, so the second call never comes.
    assert_eq!(strace.wrap(sync).run().success().stdout, "0\n0\n0\n");
    let strace = Strace::new().inject(Inject::failing_sync()).on_path(&file);
    let sync = home
        .program(Path::new(SHELL))
        .args(["-c", script])
        .arg(&file);
    assert_eq!(strace.wrap(sync).run().success().stdout, "1\n1\n1\n");
}

#[test]
fn a_running_process_can_be_made_to_fail() {
    let home = TestHome::new();
    let script = "echo up; while :; do echo x 2>/dev/null >file || echo full; sleep 0.01; done";
    let child = home.program(Path::new(SHELL)).args(["-c", script]).spawn();
    child.until("it is up", || child.stdout().contains("up"));
    let file = home.path().join("file");
    let tracer = Strace::new()
        .inject(Inject::full_disk())
        .on_path(&file)
        .attach(&home, child.pid());
    child.until("its write fails", || child.stdout().contains("full"));
    drop(tracer);
    assert!(child.ended().is_none(), "it lives on without the tracer");
}

#[test]
fn a_small_disk_is_soon_full() {
    let home = TestHome::new();
    let disk = SmallDisk::new(&home.state_dir(), 64);
    let write = |bytes: usize| {
        let script = format!("head -c {bytes} /dev/zero >state/file");
        disk.wrap(home.program(Path::new(SHELL)).args(["-c", &script]))
            .run()
    };
    write(16 * 1024).success();
    let full = write(128 * 1024).exited(1);
    assert!(full.stderr.contains("No space left"), "{}", full.stderr);
}
