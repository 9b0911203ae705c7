//! One supervisor a home: a locked file that says who holds it.

use bxcore::code::Code;
use bxcore::problem::Problem;
use bxcore::wire::supervisor::Lifetime;
use bxkit::home::Home;
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The longest record of a holder that is read, in bytes.
const MAX_RECORD_BYTES: u64 = 4096;

/// Who holds a home.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Holder {
    /// The process id.
    pub(crate) pid: u32,
    /// Since when, RFC 3339 in UTC.
    pub(crate) since: String,
    /// How it was started.
    pub(crate) lifetime: Lifetime,
}

/// The right to supervise a home, for as long as this lives; the kernel takes it back when the
/// process ends, in whatever way.
#[derive(Debug)]
pub(crate) struct HomeLock {
    file: File,
}

impl HomeLock {
    /// Takes the lock and writes who holds it.
    ///
    /// # Errors
    /// Somebody else holds it, with who that is; or the file can't be used.
    pub(crate) fn take(home: &Home, holder: &Holder) -> Result<Self, Problem> {
        let path = home.supervisor_lock_file();
        let mut file = open(&path).map_err(|error| unusable(&path, &error))?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(held(read(&mut file).as_ref(), &path)),
            Err(errno) => return Err(unusable(&path, &errno.into())),
        }
        write(&mut file, holder).map_err(|error| unusable(&path, &error))?;
        Ok(Self { file })
    }
}

impl Drop for HomeLock {
    fn drop(&mut self) {
        // The record of one that has left would only mislead. The lock goes with the file.
        let _ = self.file.set_len(0);
    }
}

fn open(path: &PathBuf) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
}

fn read(file: &mut File) -> Option<Holder> {
    let mut text = Vec::new();
    file.take(MAX_RECORD_BYTES).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

fn write(file: &mut File, holder: &Holder) -> io::Result<()> {
    let line = serde_json::to_string(holder).map_err(io::Error::other)?;
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(format!("{line}\n").as_bytes())
}

fn held(holder: Option<&Holder>, path: &Path) -> Problem {
    let problem = Problem::new(Code::HomeHeld, "Boxmaker is running in this home already");
    match holder {
        Some(Holder {
            pid,
            since,
            lifetime,
        }) => {
            let how = match lifetime {
                Lifetime::Foreground => "",
                Lifetime::Background => ", in the background",
            };
            problem
                .detail(format!("process {pid} has held it since {since}{how}"))
                .hint("use it as it is, or stop it with `boxmaker down`")
        }
        None => problem
            .detail(format!(
                "{} is locked by a process that has not yet said who it is",
                path.display()
            ))
            .hint("try again in a moment"),
    }
}

fn unusable(path: &Path, error: &io::Error) -> Problem {
    let code = bxkit::fsx::code_for(error, Code::HomeUnusable);
    Problem::new(code, "The home's lock can't be used")
        .detail(format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_told_who_is_first() {
        let root = tempfile::tempdir().unwrap();
        let home = Home::at(root.path());
        home.create().unwrap();
        let holder = |pid, lifetime| Holder {
            pid,
            since: "2026-11-30T10:00:00Z".into(),
            lifetime,
        };
        let first = HomeLock::take(&home, &holder(11, Lifetime::Background)).unwrap();
        let problem = HomeLock::take(&home, &holder(12, Lifetime::Foreground)).unwrap_err();
        assert_eq!(problem.code, Code::HomeHeld);
        assert_eq!(
            problem.detail.unwrap(),
            "process 11 has held it since 2026-11-30T10:00:00Z, in the background"
        );
        drop(first);
        HomeLock::take(&home, &holder(12, Lifetime::Foreground)).unwrap();
    }
}
