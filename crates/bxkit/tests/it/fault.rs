//! Fault points, in a build that has them.

use crate::support::probe;
use std::os::unix::process::ExitStatusExt;

fn check(plan: &str, signal: Option<i32>, printed: &str, hits: &str) {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("hits");
    let output = probe()
        .arg("fault")
        .env("BOXMAKER_FAULT", plan)
        .env("BOXMAKER_FAULT_LOG", &log)
        .output()
        .unwrap();
    assert_eq!(output.status.signal(), signal, "{plan}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), printed, "{plan}");
    assert_eq!(std::fs::read_to_string(&log).unwrap(), hits, "{plan}");
}

#[test]
fn a_process_dies_at_the_named_hit() {
    let all = "probe.first 1\nprobe.second 1\nprobe.second 2\n";
    check("", None, "past first\npast second\n", all);
    check("probe.other", None, "past first\npast second\n", all);
    check("probe.first", Some(9), "", "probe.first 1\n");
    check("probe.second:2", Some(9), "past first\n", all);
}
