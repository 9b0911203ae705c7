//! A copy of the database for a backup, made by another process beside the running brokerd.

use super::error::LedgerError;
use super::open::BUSY_TIMEOUT_MS;
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

/// How long a step of the copy waits for a commit to end, in milliseconds.
const BUSY_PAUSE_MS: u64 = 5;
/// How often it does so.
const MAX_BUSY_STEPS: u32 = 2_000;

/// Copies the database into a folder under its own name, as of one moment, and brings the copy to
/// disk. Blocks. Gives the size of the copy in bytes.
///
/// # Errors
/// The database can't be read, or the copy can't be written or is there already.
pub fn copy(from: &Path, folder: &Path) -> Result<u64, LedgerError> {
    let to = folder.join(from.file_name().unwrap_or("brokerd.db".as_ref()));
    let at = |path: &Path| {
        let path = path.to_owned();
        move |source| LedgerError::Copy { path, source }
    };
    let mut options = File::options();
    let made = options.write(true).create_new(true).mode(0o600).open(&to);
    let made = made.map_err(at(&to))?;
    fill(from, &to)?;
    made.sync_all().map_err(at(&to))?;
    let size = made.metadata().map_err(at(&to))?.len();
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(at(folder))?;
    Ok(size)
}

fn fill(from: &Path, to: &Path) -> Result<(), LedgerError> {
    let opened = |path: &Path| {
        let path = path.to_owned();
        move |source| LedgerError::Open { path, source }
    };
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let source = Connection::open_with_flags(from, flags).map_err(opened(from))?;
    source.busy_timeout(Duration::from_millis(BUSY_TIMEOUT_MS))?;
    let mut target = Connection::open(to).map_err(opened(to))?;
    {
        let backup = Backup::new(&source, &mut target)?;
        // All pages in one step: the copy is of one moment, and commits don't start it over.
        let mut steps = 0..MAX_BUSY_STEPS;
        while backup.step(-1)? != StepResult::Done {
            if steps.next().is_none() {
                let busy = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY);
                return Err(rusqlite::Error::SqliteFailure(busy, None).into());
            }
            std::thread::sleep(Duration::from_millis(BUSY_PAUSE_MS));
        }
    }
    target.close().map_err(|(_, error)| error.into())
}
