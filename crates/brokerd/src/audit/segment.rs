//! The segment file that is being written.

use super::error::AuditError;
use bxkit::audit_reader::{LastSegment, MAX_SEGMENTS};
use rustix::fs::{AtFlags, Mode, OFlags};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The segment file that is being written.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) path: PathBuf,
    file: File,
    identity: (u64, u64),
    number: usize,
    /// Bytes written or about to be.
    pub(super) bytes: u64,
    /// Records written or about to be.
    pub(super) records: u64,
    /// Whether it is the log's first, which repeats no hash.
    pub(super) is_first: bool,
}

impl Segment {
    /// Goes on with the last segment of a log that was read to its end.
    pub(super) fn reopen(last: &LastSegment) -> Result<Self, AuditError> {
        let failed = |source| AuditError::Io {
            path: last.path.clone(),
            source,
        };
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::open(&last.path, flags, Mode::empty())
            .map_err(|errno| failed(errno.into()))?;
        let number = number_of(&last.path);
        Self {
            path: last.path.clone(),
            file: file.into(),
            identity: (0, 0),
            number,
            bytes: last.whole_bytes,
            records: last.records,
            is_first: last.is_first,
        }
        .identified()
    }

    /// Begins a segment; its name is made durable before anything is written to it.
    pub(super) fn create(folder: &Path, number: usize) -> Result<Self, AuditError> {
        if number > MAX_SEGMENTS {
            return Err(AuditError::NoSegmentLeft(folder.to_owned()));
        }
        let path = folder.join(format!("{number:06}.jsonl"));
        let failed = |source| AuditError::Io {
            path: path.clone(),
            source,
        };
        let flags = OFlags::WRONLY
            | OFlags::APPEND
            | OFlags::CREATE
            | OFlags::EXCL
            | OFlags::NOFOLLOW
            | OFlags::CLOEXEC;
        let file = rustix::fs::open(&path, flags, Mode::from_raw_mode(0o600))
            .map_err(|errno| failed(errno.into()))?;
        bxkit::fsx::sync_dir(folder).map_err(failed)?;
        Self {
            path: path.clone(),
            file: file.into(),
            identity: (0, 0),
            number,
            bytes: 0,
            records: 0,
            is_first: number == 1,
        }
        .identified()
    }

    /// The segment after this one.
    pub(super) fn next(&self, folder: &Path) -> Result<Self, AuditError> {
        Self::create(folder, self.number + 1)
    }

    fn identified(mut self) -> Result<Self, AuditError> {
        let stat = rustix::fs::fstat(&self.file).map_err(|errno| self.failed(errno.into()))?;
        self.identity = (stat.st_dev, stat.st_ino);
        Ok(self)
    }

    /// Writes whole lines in one go.
    pub(super) fn write(&mut self, lines: &[u8]) -> Result<(), AuditError> {
        self.file
            .write_all(lines)
            .map_err(|source| self.failed(source))
    }

    /// Waits until everything written is on disk.
    pub(super) fn sync(&self) -> Result<(), AuditError> {
        rustix::fs::fdatasync(&self.file).map_err(|errno| self.failed(errno.into()))
    }

    /// Checks that the name still leads to the file: what goes to a deleted one is lost silently.
    pub(super) fn check_in_place(&self) -> Result<(), AuditError> {
        let found = rustix::fs::statat(rustix::fs::CWD, &self.path, AtFlags::SYMLINK_NOFOLLOW);
        match found {
            Ok(stat) if (stat.st_dev, stat.st_ino) == self.identity => Ok(()),
            Ok(_) | Err(rustix::io::Errno::NOENT) => Err(AuditError::Replaced(self.path.clone())),
            Err(errno) => Err(self.failed(errno.into())),
        }
    }

    fn failed(&self, source: std::io::Error) -> AuditError {
        AuditError::Io {
            path: self.path.clone(),
            source,
        }
    }

    /// Writes to a device in place of the file, to try what happens when writing fails.
    #[cfg(test)]
    pub(super) fn divert(&mut self, file: File) {
        self.file = file;
    }
}

/// The number in a segment's name; one that is no number has no successor.
fn number_of(path: &Path) -> usize {
    let stem = path.file_stem().and_then(|stem| stem.to_str());
    stem.and_then(|stem| stem.parse().ok())
        .unwrap_or(MAX_SEGMENTS)
}
