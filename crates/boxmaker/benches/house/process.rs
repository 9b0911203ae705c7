//! What the kernel knows of processes: their memory, the time they worked, the syncs they asked for.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// A process's share of memory in KiB: what it shares with others is divided among them.
pub(crate) fn pss_kib(pid: u32) -> u64 {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let line = rollup
        .lines()
        .find(|line| line.starts_with("Pss:"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// All of a process's memory in KiB, shared or not.
pub(crate) fn rss_kib(pid: u32) -> u64 {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let line = rollup
        .lines()
        .find(|line| line.starts_with("Rss:"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// The unit of `/proc/<pid>/stat`, which is the same on every Linux.
const TICK_MS: u64 = 10;

/// How long a process's threads have worked.
pub(crate) fn worked(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .unwrap()
        .1
        .split_whitespace()
        .collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * TICK_MS)
}

/// How long a small append takes until it is on disk, in this folder.
pub(crate) fn sync_time(folder: &Path) -> Duration {
    const SYNCS: usize = 100;
    const APPENDED: [u8; 4096] = [b'x'; 4096];
    let path = folder.join("sync-probe");
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&path)
        .unwrap();
    let mut times: Vec<Duration> = (0..SYNCS)
        .map(|_| {
            file.write_all(&APPENDED).unwrap();
            let began = Instant::now();
            file.sync_data().unwrap();
            began.elapsed()
        })
        .collect();
    std::fs::remove_file(path).unwrap();
    super::table::undisturbed(&mut times)
}

/// Syncs in a log of strace, by the file that was synced; which transcript it was doesn't matter.
pub(crate) fn syncs(log: &Path) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for line in std::fs::read_to_string(log).unwrap().lines() {
        // A call that another interrupts has a second line, which names no file.
        if line.contains(" resumed>") {
            continue;
        }
        let Some(path) = line
            .split_once('<')
            .and_then(|(_, rest)| rest.split_once('>'))
        else {
            continue;
        };
        let name = match path.0 {
            path if path.contains("/sessions") => "transcripts",
            path if path.contains("/audit") => "audit log",
            path => path.rsplit('/').next().unwrap(),
        };
        *counts.entry(name.to_owned()).or_insert(0) += 1;
    }
    counts
}
