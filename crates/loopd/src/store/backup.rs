//! A consistent copy of everything, made beside a running store.
//!
//! The database is copied first, as of one moment. Every transcript then has at least what that
//! database says its file has, and is copied up to the length that the database knows; lines that
//! were in no file yet are in the copied journal.

use super::error::StoreError;
use super::files::{LOG_NAME, folder, is_set_aside, make_folder};
use super::options::StoreOptions;
use super::rows;
use super::schema;
use bxcore::id::{InvalidId, SessionId};
use bxcore::wire::loopd::BackupReport;
use bxkit::fsx::sync_dir;
use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The longest name of a backup, in bytes.
pub const MAX_BACKUP_NAME_BYTES: usize = bxcore::id::MAX_SESSION_ID_BYTES;
/// How long a step of the copy waits for a commit to end.
const BUSY_PAUSE: Duration = Duration::from_millis(5);
/// How often it does so.
const MAX_BUSY_STEPS: u32 = 2_000;

/// The name of a backup's folder: as a session's, `[a-z0-9-]`, 1 to 64 characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupName(String);

/// A text that can't name a backup.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a backup's name must be 1 to {MAX_BACKUP_NAME_BYTES} characters of a-z, 0-9 and -")]
pub struct InvalidBackupName;

impl BackupName {
    /// Checks the rule and builds the name.
    pub fn new(text: impl Into<String>) -> Result<Self, InvalidBackupName> {
        let name: Result<SessionId, InvalidId> = SessionId::new(text);
        name.map(|name| Self(name.into()))
            .map_err(|_| InvalidBackupName)
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Makes the copy in a folder of another name and moves it into place when it is whole. Blocks.
pub(super) fn make_backup(
    options: &StoreOptions,
    name: &BackupName,
) -> Result<BackupReport, StoreError> {
    let place = options.backups_dir.join(name.as_str());
    let partial = options
        .backups_dir
        .join(format!(".{}.partial", name.as_str()));
    let files = |error: io::Error| StoreError::file(&place, &error);
    if place.exists() {
        return Err(StoreError::BackupExists { path: place });
    }
    make_folder(&options.backups_dir).map_err(files)?;
    if partial.exists() {
        std::fs::remove_dir_all(&partial).map_err(files)?;
    }
    let report = fill(options, &partial).and_then(|report| {
        std::fs::rename(&partial, &place)
            .and_then(|()| sync_dir(&options.backups_dir))
            .map_err(files)?;
        Ok(report)
    });
    if report.is_err() {
        // Half a backup is of no use; if it can't be removed, the next attempt does.
        let _ = std::fs::remove_dir_all(&partial);
    }
    report.map(|(sessions, bytes)| BackupReport {
        folder: place.display().to_string(),
        sessions,
        bytes,
    })
}

/// Copies everything into a new folder; gives the number of sessions and of bytes.
fn fill(options: &StoreOptions, into: &Path) -> Result<(u64, u64), StoreError> {
    let files = |error: io::Error| StoreError::file(into, &error);
    let sessions = into.join("sessions");
    make_folder(into)
        .and_then(|()| make_folder(&sessions))
        .map_err(files)?;
    let db = database_in(options, into);
    let copy = copy_database(&options.db, &db);
    let copy = copy.map_err(|error| StoreError::database(&db, &error))?;
    let lengths =
        rows::session_lengths(&copy).map_err(|error| StoreError::database(&db, &error))?;
    let mut kept = 0;
    let mut bytes = 0;
    for (session, length) in lengths {
        match copy_log(&options.sessions_dir, &sessions, &session, length) {
            Ok(Some(copied)) => {
                kept += 1;
                bytes += copied;
            }
            // Deleted since the database was copied, so it goes from the copy too; or so new that
            // its first lines are in the journal alone.
            Ok(None) => {
                let removed = rows::remove_copied_session(&copy, &session);
                let removed = removed.map_err(|error| StoreError::database(&db, &error))?;
                kept += u64::from(!removed);
            }
            Err(error) => return Err(files(error)),
        }
    }
    copy.close()
        .map_err(|(_, error)| StoreError::database(&db, &error))?;
    let file = File::open(&db).map_err(files)?;
    file.sync_all().map_err(files)?;
    bytes += file.metadata().map_err(files)?.len();
    sync_dir(&sessions)
        .and_then(|()| sync_dir(into))
        .map_err(files)?;
    Ok((kept, bytes))
}

fn database_in(options: &StoreOptions, folder: &Path) -> PathBuf {
    folder.join(options.db.file_name().unwrap_or("boxmaker.db".as_ref()))
}

/// Copies the database as of one moment; gives a connection to the copy.
fn copy_database(from: &Path, to: &Path) -> rusqlite::Result<Connection> {
    let source = schema::open_reader(from)?;
    let mut copy = Connection::open(to)?;
    {
        let backup = Backup::new(&source, &mut copy)?;
        // All pages in one step: the copy is of one moment, and commits don't start it over.
        let mut steps = 0..MAX_BUSY_STEPS;
        while backup.step(-1)? != StepResult::Done {
            if steps.next().is_none() {
                let busy = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY);
                return Err(rusqlite::Error::SqliteFailure(busy, None));
            }
            std::thread::sleep(BUSY_PAUSE);
        }
    }
    copy.pragma_update(None, "synchronous", "FULL")?;
    Ok(copy)
}

/// Copies a transcript up to a length, or whole, with what was set aside from it; `None` if its
/// session is gone.
fn copy_log(
    from: &Path,
    to: &Path,
    session: &SessionId,
    length: Option<u64>,
) -> io::Result<Option<u64>> {
    let (from, to) = (folder(from, session), folder(to, session));
    let names = match std::fs::read_dir(&from) {
        Ok(names) => names,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    make_folder(&to)?;
    let mut log_bytes = None;
    let mut aside_bytes = 0;
    for name in names {
        let name = name?.file_name();
        if name == LOG_NAME {
            log_bytes = Some(copy_file(&from.join(&name), &to.join(&name), length)?);
        } else if is_set_aside(&name) {
            aside_bytes += copy_file(&from.join(&name), &to.join(&name), None)?;
        }
    }
    // Without its transcript a readable session is gone, or so new that it has none yet.
    if log_bytes.is_none() && length.is_some() {
        std::fs::remove_dir_all(&to)?;
        return Ok(None);
    }
    sync_dir(&to)?;
    Ok(Some(log_bytes.unwrap_or(0) + aside_bytes))
}

fn copy_file(from: &Path, to: &Path, length: Option<u64>) -> io::Result<u64> {
    let source = File::open(from)?;
    let mut target = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(to)?;
    let copied = io::copy(&mut source.take(length.unwrap_or(u64::MAX)), &mut target)?;
    target.sync_all()?;
    Ok(copied)
}
