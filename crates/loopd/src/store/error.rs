//! What can go wrong in the store.

use super::batch::BatchError;
use bxcore::code::Code;
use bxcore::id::SessionId;
use std::io;
use std::path::{Path, PathBuf};

/// Why the store could not do what was asked. A failed commit left nothing behind.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// There is no space; later attempts may find some.
    #[error("no space is left on the disk for `{}`", path.display())]
    DiskFull {
        /// What was being written.
        path: PathBuf,
    },
    /// The database can't be read or written.
    #[error("the database `{}` can't be used: {why}", path.display())]
    Database {
        /// The database.
        path: PathBuf,
        /// What SQLite said.
        why: String,
    },
    /// The database was written by a later Boxmaker.
    #[error(
        "the database `{}` is of version {version}; this Boxmaker reads up to {newest}",
        path.display()
    )]
    TooNew {
        /// The database.
        path: PathBuf,
        /// Its version.
        version: u32,
        /// The newest that is known here.
        newest: u32,
    },
    /// Another process has this database open.
    #[error("another loopd holds `{}`", path.display())]
    Held {
        /// The lock file.
        path: PathBuf,
    },
    /// A file or folder beside the database can't be used.
    #[error("`{}` can't be used: {why}", path.display())]
    Files {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        why: String,
    },
    /// No session has this id.
    #[error("there is no session `{0}`")]
    SessionUnknown(SessionId),
    /// A model call of the session is under way.
    #[error("session `{0}` has a model call under way")]
    SessionBusy(SessionId),
    /// The session's transcript can't be read.
    #[error("the transcript of session `{session}` can't be read: {why}")]
    TranscriptBroken {
        /// The session.
        session: SessionId,
        /// Where and why.
        why: String,
    },
    /// The session's transcript has reached its largest size.
    #[error("the transcript of session `{session}` would exceed {limit_bytes} bytes")]
    TranscriptFull {
        /// The session.
        session: SessionId,
        /// The limit.
        limit_bytes: u64,
    },
    /// The batch contradicts what is stored.
    #[error("a batch of session `{session}` can't be stored: {source}")]
    Batch {
        /// The session.
        session: SessionId,
        /// Why.
        source: BatchError,
    },
    /// A backup of this name is there already.
    #[error("there is a backup `{}` already", path.display())]
    BackupExists {
        /// Its folder.
        path: PathBuf,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

impl StoreError {
    /// The runbook code.
    pub const fn code(&self) -> Code {
        match self {
            Self::DiskFull { .. } => Code::DiskFull,
            Self::Database { .. } | Self::TooNew { .. } | Self::Files { .. } => Code::StateBroken,
            Self::Held { .. } => Code::HomeHeld,
            Self::SessionUnknown(_) => Code::SessionUnknown,
            Self::SessionBusy(_) => Code::SessionHeld,
            Self::TranscriptBroken { .. } => Code::TranscriptBroken,
            Self::TranscriptFull { .. } => Code::TooLarge,
            Self::BackupExists { .. } => Code::BadUsage,
            Self::Batch { .. } | Self::Closed => Code::Internal,
        }
    }

    /// What SQLite reports, told apart by whether space would help.
    pub(super) fn database(path: &Path, error: &rusqlite::Error) -> Self {
        let path = path.to_owned();
        if is_disk_full(error) {
            return Self::DiskFull { path };
        }
        Self::Database {
            path,
            why: error.to_string(),
        }
    }

    /// What the system reports of a file, told apart by whether space would help.
    pub(super) fn file(path: &Path, error: &io::Error) -> Self {
        let path = path.to_owned();
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull { path },
            _ => Self::Files {
                path,
                why: error.to_string(),
            },
        }
    }
}

/// Whether space would help.
///
/// Without any, SQLite can't make its shared index large enough and calls that an input/output
/// error of its own.
fn is_disk_full(error: &rusqlite::Error) -> bool {
    let Some(error) = error.sqlite_error() else {
        return false;
    };
    error.code == rusqlite::ErrorCode::DiskFull
        || error.extended_code == rusqlite::ffi::SQLITE_IOERR_SHMSIZE
}

impl From<StoreError> for bxcore::problem::Problem {
    fn from(error: StoreError) -> Self {
        let title = match error.code() {
            Code::DiskFull => "There is no space to store what happened",
            Code::SessionUnknown => "There is no such session",
            Code::TranscriptBroken => "The session's transcript can't be read",
            Code::SessionHeld => "The session is in use",
            Code::TooLarge => "The session's transcript is full",
            Code::BadUsage => "The backup can't be made",
            Code::HomeHeld => "The state folder is in use",
            Code::StateBroken => "The state database can't be used",
            _ => "What happened could not be stored",
        };
        let title = match error {
            StoreError::Files { .. } => "A file of the state folder can't be used",
            _ => title,
        };
        let problem = Self::new(error.code(), title).detail(error.to_string());
        match (&error, error.code()) {
            (StoreError::SessionUnknown(_), _) => problem.hint("`boxmaker sessions` lists them"),
            (StoreError::BackupExists { .. }, _) => problem.hint("take another name, or none"),
            (_, Code::DiskFull) => problem.hint("Make room on the disk, then ask again."),
            (_, Code::TranscriptBroken) => problem.hint(
                "Repair its file and use the session again, or begin a new one. What was taken \
                 out of it stands beside it as log.jsonl.torn-1 and so on.",
            ),
            (_, Code::StateBroken) => {
                problem.hint("See loopd's log in state/logs, and put back the last good backup.")
            }
            _ => problem,
        }
    }
}
