//! How commands end: by themselves, by a limit, with whoever asked; and that nothing outlives them.

use super::place::{Place, TIMEOUT_SECS, job, launch, text};
use crate::support::TestHome;
use brokerd::sandbox::{Ended, Launch, Sandbox, SandboxError};
use bxcore::code::Code;
use std::time::{Duration, Instant};

/// How long a process that was killed may still be seen.
const GONE_SECS: u64 = 30;

/// How many processes of this machine have these words on their command line.
fn running(words: &str) -> usize {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines
        .filter(|line| {
            String::from_utf8_lossy(line)
                .replace('\0', " ")
                .contains(words)
        })
        .count()
}

pub(crate) fn wait_gone(words: &str) {
    let end = Instant::now() + Duration::from_secs(GONE_SECS);
    while running(words) > 0 {
        assert!(Instant::now() < end, "`{words}` still runs");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn exit_codes_and_signals_are_told() {
    let place = Place::new();
    for (command, expect) in [
        ("true", Ended::Exit(0)),
        ("exit 7", Ended::Exit(7)),
        ("no-such-program", Ended::Exit(127)),
        ("kill -TERM $$", Ended::Signal(15)),
        ("kill -KILL $$", Ended::Signal(9)),
        ("if then", Ended::Exit(2)),
        ("", Ended::Exit(0)),
    ] {
        assert_eq!(place.run(command).ended, expect, "{command}");
    }
}

#[test]
fn both_outputs_come_in_order_and_no_text_is_no_trouble() {
    let place = Place::new();
    let ran = place.run("echo one; echo two >&2; echo three; printf 'a\\377\\000b'");
    assert_eq!(ran.head, b"one\ntwo\nthree\na\xff\0b");
    assert_eq!((ran.total_bytes, ran.tail.len()), (18, 0));
}

#[test]
fn long_output_keeps_its_start_and_its_end() {
    let place = Place::new();
    let ran = place.run("seq 1 100000");
    assert_eq!(ran.ended, Ended::Exit(0));
    assert_eq!(ran.total_bytes, 588_895);
    assert_eq!((ran.head.len(), ran.tail.len()), (4096, 4096));
    assert!(ran.head.starts_with(b"1\n2\n") && ran.tail.ends_with(b"99999\n100000\n"));
}

#[test]
fn output_without_end_is_ended() {
    let place = Place::new();
    let ran = place.run("yes yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy");
    assert_eq!(ran.ended, Ended::Output);
    assert!(ran.total_bytes > brokerd::sandbox::MAX_OUTPUT_BYTES);
}

#[test]
fn time_is_up_for_everything_in_the_sandbox() {
    let place = Place::new();
    let ran = place.run_for(
        "echo before; setsid sleep 86391 & trap '' TERM INT HUP; sleep 86391",
        2,
    );
    assert_eq!(
        (ran.ended.clone(), text(&ran).as_str()),
        (Ended::Timeout, "before\n")
    );
    wait_gone("sleep 86391");
}

#[test]
fn what_a_command_leaves_behind_ends_with_it() {
    let place = Place::new();
    let ran = place.run("setsid nohup sleep 86392 >/dev/null 2>&1 & (sleep 86392 &) ; echo gone");
    assert_eq!(
        (ran.ended.clone(), text(&ran).as_str()),
        (Ended::Exit(0), "gone\n")
    );
    wait_gone("sleep 86392");
}

#[test]
fn a_bomb_of_processes_ends() {
    let place = Place::new();
    for bomb in [
        "b() { sleep 86393 & b & b & sleep 86393; }; b",
        "b() { b | b & }; b; sleep 86393",
    ] {
        // Where the kernel keeps count, the rest of the bomb waits for the clock.
        let ran = place.run_for(bomb, 5);
        let refused = text(&ran).contains("annot fork");
        assert!(
            ran.ended == Ended::Processes || refused,
            "{:?} {}",
            ran.ended,
            text(&ran)
        );
    }
    wait_gone("sleep 86393");
}

#[test]
fn memory_is_counted_together() {
    let place = Place::new();
    let hungry = "perl -e 'my $x = \"x\" x (400 << 20); sleep 86394'";
    let ran = place.run(&format!("for i in 1 2 3 4 5 6; do {hungry} & done; wait"));
    assert_eq!(ran.ended, Ended::Memory, "{}", text(&ran));
    wait_gone("sleep 86394");
}

#[test]
fn whoever_asked_and_is_gone_takes_the_command_along() {
    let place = Place::new();
    let sandbox = place.sandbox.clone();
    let marker = place.work.join("began");
    let asking =
        std::thread::spawn(move || sandbox.run(&job("touch began; sleep 86395", TIMEOUT_SECS)));
    while !marker.exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(running("sleep 86395") > 0);
    let launchers: Vec<u32> = children_named("role launcher");
    for pid in launchers {
        let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }
    assert!(asking.join().unwrap().is_err());
    wait_gone("sleep 86395");
    let again = place.sandbox.run(&job("true", TIMEOUT_SECS)).unwrap_err();
    assert_eq!(again.code(), Code::SandboxUnavailable);
}

/// The launchers of this test process: nextest gives each test its own.
fn children_named(words: &str) -> Vec<u32> {
    let own = format!(" {} ", std::process::id());
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let is_ours = |pid: &u32| {
        let read = |file: &str| std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        let line = String::from_utf8_lossy(&read("cmdline")).replace('\0', " ");
        let stat = String::from_utf8_lossy(&read("stat")).into_owned();
        line.contains(words) && stat.rsplit(')').next().unwrap_or("").contains(&own)
    };
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(is_ours)
        .collect()
}

#[test]
fn commands_run_at_once_without_meeting() {
    let place = Place::new();
    std::thread::scope(|scope| {
        let runs: Vec<_> = (0..6)
            .map(|n| {
                let sandbox = place.sandbox.clone();
                scope.spawn(move || {
                    let command = format!("echo {n} > /tmp/same; sleep 0.2; cat /tmp/same");
                    text(&sandbox.run(&job(&command, TIMEOUT_SECS)).unwrap())
                })
            })
            .collect();
        for (n, run) in runs.into_iter().enumerate() {
            assert_eq!(run.join().unwrap(), format!("{n}\n"));
        }
    });
}

#[test]
fn without_bubblewrap_nothing_runs() {
    let test = TestHome::new();
    let work = test.workspace("s");
    let empty = test.beside("empty");
    let launch = Launch {
        search_path: empty.into_os_string(),
        ..launch(&test)
    };
    let sandbox = Sandbox::start(&launch).unwrap();
    let error = sandbox.run(&job("touch ran", TIMEOUT_SECS)).unwrap_err();
    assert_eq!(error.code(), Code::SandboxUnavailable);
    assert!(error.to_string().contains("bwrap"), "{error}");
    assert!(!work.join("ran").exists());
}

#[test]
fn where_bubblewrap_fails_its_words_are_told_and_nothing_runs() {
    let test = TestHome::new();
    let work = test.workspace("s");
    let folder = test.beside("fake");
    let fake = folder.join("bwrap");
    std::fs::write(
        &fake,
        "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n",
    )
    .unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&fake, mode).unwrap();
    let launch = Launch {
        search_path: folder.into_os_string(),
        ..launch(&test)
    };
    let error = Sandbox::start(&launch)
        .unwrap()
        .run(&job("touch ran", TIMEOUT_SECS))
        .unwrap_err();
    assert!(matches!(error, SandboxError::Unavailable(_)));
    assert!(error.to_string().contains("No permissions"), "{error}");
    assert!(!work.join("ran").exists());
}

#[test]
fn a_workspace_that_became_a_link_is_not_shown() {
    let place = Place::new();
    let outside = place.test.beside("outside");
    std::fs::remove_dir(&place.work).unwrap();
    std::os::unix::fs::symlink(&outside, &place.work).unwrap();
    let error = place
        .sandbox
        .run(&job("touch ran", TIMEOUT_SECS))
        .unwrap_err();
    assert!(matches!(error, SandboxError::Unavailable(_)), "{error}");
    assert!(!outside.join("ran").exists());
}
