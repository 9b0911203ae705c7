//! Each right that a process gave up, tried.
//!
//! System calls are always filtered. Files, ports and signals are Landlock's: on a kernel without
//! it, or with an older one, the report must say so, and only what it claims is tried.

use crate::support::probe;
use std::collections::BTreeMap;
use std::net::TcpListener;

struct Outcome {
    landlock: String,
    acts: BTreeMap<String, String>,
}

impl Outcome {
    fn check(&self, acts: &[&str], expect: &str) {
        for act in acts {
            let ended = self.acts.get(*act).map_or("not tried", String::as_str);
            assert!(ended.contains(expect), "{act}: {ended}");
        }
    }
}

/// Runs the probe; it may connect to a port that listens, if `with_port`.
fn tried(with_port: bool) -> Outcome {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::create_dir(at("inside")).unwrap();
    for name in ["inside/file", "readable", "outside"] {
        std::fs::write(at(name), "text").unwrap();
    }
    std::os::unix::fs::symlink(at("outside"), at("inside/to-outside")).unwrap();
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let [allowed, other] = listeners
        .each_ref()
        .map(|l| l.local_addr().unwrap().port().to_string());
    let output = probe()
        .arg("acts")
        .arg(folder.path())
        .arg(if with_port { allowed.as_str() } else { "" })
        .arg(&other)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    let mut acts: BTreeMap<String, String> = text
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(act, ended)| (act.to_owned(), ended.to_owned()))
        .collect();
    let landlock = acts.remove("landlock").unwrap();
    Outcome { landlock, acts }
}

#[test]
fn what_was_kept_still_works() {
    let outcome = tried(true);
    outcome.check(
        &[
            "read-inside",
            "write-inside",
            "rename-inside",
            "mkdir-inside",
            "remove-inside",
            "read-readable",
            "time-zone",
            "unix-socket",
            "connect-allowed",
        ],
        "allowed",
    );
}

#[test]
fn without_ip_sockets_none_can_be_made() {
    let outcome = tried(false);
    outcome.check(
        &[
            "connect-other",
            "listen",
            "vsock",
            "packet",
            "program",
            "mount",
            "chroot",
        ],
        "Operation not permitted",
    );
    outcome.check(&["unix-socket"], "allowed");
}

#[test]
fn with_ip_sockets_other_families_stay_out() {
    tried(true).check(
        &["vsock", "packet", "program", "mount", "chroot"],
        "Operation not permitted",
    );
}

#[test]
fn files_outside_are_out_of_reach() {
    let outcome = tried(true);
    if outcome.landlock == "none" {
        outcome.check(&["read-outside"], "allowed");
        return;
    }
    outcome.check(
        &[
            "read-outside",
            "read-through-link",
            "write-outside",
            "write-readable",
            "link-inside",
            "read-environment",
        ],
        "Permission denied",
    );
}

#[test]
fn ports_and_processes_outside_are_out_of_reach() {
    let outcome = tried(true);
    if outcome.landlock != "full" {
        outcome.check(&["read-inside"], "allowed");
        return;
    }
    outcome.check(&["connect-other", "listen"], "Permission denied");
    outcome.check(&["signal-parent"], "Operation not permitted");
}

#[test]
fn memory_is_never_dumped_and_rights_never_gained() {
    let outcome = tried(false);
    outcome.check(&["core"], "Some(0)");
    outcome.check(&["dumpable"], "NotDumpable");
    outcome.check(&["no-new-privs"], "Ok(true)");
}
