//! Which processes belong to a home, and how they are ended.
//!
//! A process belongs to it when it listens on one of its sockets, has its path in its environment,
//! was started by the test itself, or descends from one that does. Nothing else is ever signalled.

use rustix::net::sockopt::socket_peercred;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const END_TIMEOUT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Who listens on a Unix socket.
pub(super) fn listener(socket: &Path) -> Option<u32> {
    let stream = UnixStream::connect(socket).ok()?;
    let peer = socket_peercred(&stream).ok()?;
    u32::try_from(peer.pid.as_raw_nonzero().get()).ok()
}

/// Kills one process; one that is gone already is as good.
pub(super) fn kill(pid: u32) {
    signal(pid, Signal::KILL);
}

/// Sends a signal to one process.
pub(super) fn signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid {
        let _ = kill_process(pid, signal);
    }
}

/// Whether a process runs: a zombie doesn't.
pub(super) fn runs(pid: u32) -> bool {
    status(pid).is_some_and(|(state, _)| state != 'Z' && state != 'X')
}

/// Waits until a process runs no more.
pub(super) fn wait_gone(pid: u32) {
    let end = Instant::now() + END_TIMEOUT;
    while runs(pid) {
        assert!(Instant::now() < end, "process {pid} does not end");
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Every running process of a home, the test's own excepted.
pub(super) fn of_home(root: &Path, started: &[u32]) -> Vec<u32> {
    let all = all();
    let own = std::process::id();
    let mut found: BTreeSet<u32> = started.iter().copied().filter(|pid| runs(*pid)).collect();
    found.extend(
        sockets(&root.join("run"))
            .iter()
            .filter_map(|socket| listener(socket)),
    );
    found.extend(
        all.iter()
            .map(|(pid, _)| *pid)
            .filter(|pid| has_home(*pid, root)),
    );
    found.remove(&own);
    with_descendants(found, &all)
}

/// Kills a child that leads its process group, its group, and everything that descends from it.
///
/// The child itself is not reaped yet, so neither its id nor its group's can be another's.
pub(super) fn end_family(pid: u32) {
    let family = with_descendants(BTreeSet::from([pid]), &all());
    if let Some(group) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    family.iter().copied().for_each(kill);
    family.into_iter().for_each(wait_gone);
}

fn with_descendants(mut found: BTreeSet<u32>, all: &[(u32, u32)]) -> Vec<u32> {
    loop {
        let is_new = |(pid, parent): &&(u32, u32)| found.contains(parent) && !found.contains(pid);
        let more: Vec<u32> = all.iter().filter(is_new).map(|(pid, _)| *pid).collect();
        if more.is_empty() {
            break;
        }
        found.extend(more);
    }
    found.into_iter().filter(|pid| runs(*pid)).collect()
}

/// Kills until nothing of the home runs; gives what won't end.
pub(super) fn end_all(root: &Path, started: &[u32]) -> Result<(), Vec<u32>> {
    let end = Instant::now() + END_TIMEOUT;
    loop {
        let left = of_home(root, started);
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() > end {
            return Err(left);
        }
        left.into_iter().for_each(kill);
        std::thread::sleep(POLL_INTERVAL);
    }
}

fn sockets(run: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(run).into_iter().flatten().flatten();
    let is_socket =
        |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_socket());
    entries
        .filter(is_socket)
        .map(|entry| entry.path())
        .collect()
}

/// Whether `BOXMAKER_HOME` in a process's environment is this home. Unreadable ones have none.
fn has_home(pid: u32, root: &Path) -> bool {
    let wanted = [b"BOXMAKER_HOME=", root.as_os_str().as_bytes()].concat();
    environment(pid)
        .split(|byte| *byte == 0)
        .any(|entry| entry == wanted)
}

/// A process's environment, empty where it can't be read.
///
/// It also reads as empty for the moment of an `exec`, which is waited out: whoever is ended only
/// when seen must not be missed. A kernel thread has none either, but no executable.
fn environment(pid: u32) -> Vec<u8> {
    for _ in 0..EXEC_TRIES {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        if !environment.is_empty() || std::fs::read_link(format!("/proc/{pid}/exe")).is_err() {
            return environment;
        }
        std::thread::sleep(EXEC_INTERVAL);
    }
    Vec::new()
}

const EXEC_TRIES: usize = 20;
const EXEC_INTERVAL: Duration = Duration::from_millis(1);

/// Every process with its parent.
fn all() -> Vec<(u32, u32)> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| Some((pid, status(pid)?.1))).collect()
}

/// A process's state and parent, from `/proc/<pid>/stat`.
fn status(pid: u32) -> Option<(char, u32)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything, so what counts comes after the last one.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.next()?.parse().ok()?))
}
