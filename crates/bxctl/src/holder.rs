//! Who holds a home, as the kernel and the lock's own record say: for when the house can't be asked.

use bxkit::home::Home;
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use serde::Deserialize;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The longest record that is read, in bytes.
const MAX_RECORD_BYTES: u64 = 4096;

/// The executable that can be a supervisor.
const EXECUTABLE: &str = "boxmaker";

/// What of the record is needed here.
#[derive(Debug, Deserialize)]
struct Record {
    pid: u32,
}

/// The process that holds a home; none if nobody does, or if the record names somebody else.
///
/// A record alone proves nothing, as a process that was killed leaves it behind and its number may
/// be another's by now: the lock must be held, by a process of ours that runs Boxmaker.
pub(crate) fn of(home: &Home) -> Option<u32> {
    let mut lock = bxkit::fsx::careful()
        .read(true)
        .open(home.supervisor_lock_file())
        .ok()?;
    let Record { pid } = is_held(&lock).then(|| record(&mut lock)).flatten()?;
    is_ours(Path::new("/proc"), pid).then_some(pid)
}

fn is_held(lock: &File) -> bool {
    let tried = rustix::fs::flock(lock, FlockOperation::NonBlockingLockShared);
    tried == Err(Errno::WOULDBLOCK)
}

fn record(lock: &mut File) -> Option<Record> {
    let mut text = Vec::new();
    lock.take(MAX_RECORD_BYTES).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Whether a process is a `boxmaker` of the user who asks.
fn is_ours(proc: &Path, pid: u32) -> bool {
    let folder = proc.join(pid.to_string());
    let is_own = folder
        .metadata()
        .is_ok_and(|found| found.uid() == rustix::process::geteuid().as_raw());
    let executable = std::fs::read_link(folder.join("exe")).unwrap_or_default();
    // The file may have been replaced by an update since the process began.
    let name = executable.file_name().map(|name| name.to_string_lossy());
    let is_boxmaker = name.is_some_and(|name| name.trim_end_matches(" (deleted)") == EXECUTABLE);
    is_own && is_boxmaker
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_record_without_a_lock_or_of_another_program_names_nobody() {
        let root = tempfile::tempdir().unwrap();
        let home = Home::at(root.path());
        home.create().unwrap();
        assert_eq!(of(&home), None, "no lock at all");
        let path = home.supervisor_lock_file();
        std::fs::write(&path, format!("{{\"pid\":{}}}\n", std::process::id())).unwrap();
        assert_eq!(of(&home), None, "left behind");
        let lock = File::open(&path).unwrap();
        rustix::fs::flock(&lock, FlockOperation::LockExclusive).unwrap();
        assert_eq!(of(&home), None, "held, but by a test");
    }

    #[test]
    fn a_process_is_known_by_its_executable() {
        let proc = tempfile::tempdir().unwrap();
        let check = |pid: u32, exe: &str, expect: bool| {
            let folder = proc.path().join(pid.to_string());
            std::fs::create_dir(&folder).unwrap();
            symlink(exe, folder.join("exe")).unwrap();
            assert_eq!(is_ours(proc.path(), pid), expect, "{exe}");
        };
        check(1, "/usr/bin/boxmaker", true);
        check(2, "/usr/bin/boxmaker (deleted)", true);
        check(3, "/usr/bin/boxmaker-x", false);
        check(4, "/usr/bin/python3", false);
        assert!(!is_ours(proc.path(), 5), "gone");
    }
}
