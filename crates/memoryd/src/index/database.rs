//! The database of the index: its schema, and opening it. It is a copy of what stands elsewhere, so
//! that whatever is wrong with it is cured by making it anew.

use crate::folder::Stamp;
use rusqlite::{Connection, OpenFlags};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The version of the schema. An index of another version is made anew.
const VERSION: u32 = 1;
/// How long a lock of somebody's shell is waited out.
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);
/// How much of the index SQLite keeps in memory, in KiB.
const CACHE_KIB: u32 = 16 * 1024;
const CACHED_STATEMENTS: usize = 32;

const SCHEMA: &str = "
    CREATE TABLE sources (
        id    INTEGER PRIMARY KEY,
        kind  TEXT NOT NULL,
        name  TEXT NOT NULL,
        stamp TEXT NOT NULL,
        taken INTEGER NOT NULL,
        said  TEXT NOT NULL,
        UNIQUE (kind, name)
    );
    CREATE TABLE passages (
        id        INTEGER PRIMARY KEY,
        source    INTEGER NOT NULL REFERENCES sources (id),
        place     TEXT NOT NULL,
        who       TEXT NOT NULL,
        time      TEXT NOT NULL,
        class     TEXT NOT NULL,
        untrusted INTEGER NOT NULL,
        text      TEXT NOT NULL
    );
    CREATE INDEX passages_of_source ON passages (source);
    CREATE VIRTUAL TABLE words USING fts5 (
        text, content = 'passages', content_rowid = 'id',
        tokenize = 'unicode61 remove_diacritics 2'
    );
";

/// The open database, and which file it is.
#[derive(Debug)]
pub(super) struct Database {
    pub(super) db: Connection,
    path: PathBuf,
    file: (u64, u64),
}

impl Database {
    /// Opens the index; makes it anew if it is not there, of another version, or damaged.
    pub(super) fn open(path: &Path) -> rusqlite::Result<Self> {
        match Self::try_open(path) {
            Ok(Some(database)) => Ok(database),
            Ok(None) => Self::make(path),
            Err(error) => {
                tracing::warn!(%error, "the index can't be used and is made anew");
                Self::make(path)
            }
        }
    }

    fn make(path: &Path) -> rusqlite::Result<Self> {
        for suffix in ["", "-journal", "-wal", "-shm"] {
            // A journal that outlived its database would be played into the next one.
            let _ = std::fs::remove_file(beside(path, suffix));
        }
        Self::try_open(path)?.ok_or(rusqlite::Error::InvalidQuery)
    }

    fn try_open(path: &Path) -> rusqlite::Result<Option<Self>> {
        if !path.exists() {
            let _ = std::fs::remove_file(beside(path, "-journal"));
        }
        make_private(path).map_err(|error| failed(&error))?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let db = Connection::open_with_flags(path, flags)?;
        db.busy_timeout(BUSY_TIMEOUT)?;
        db.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
        db.execute_batch(&format!(
            "PRAGMA journal_mode = TRUNCATE; PRAGMA synchronous = NORMAL; PRAGMA temp_store = MEMORY;
             PRAGMA trusted_schema = OFF; PRAGMA cache_size = -{CACHE_KIB};"
        ))?;
        let found: u32 = db.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        let tables: u32 =
            db.query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get(0))?;
        match (found, tables) {
            (0, 0) => db.execute_batch(&format!(
                "BEGIN IMMEDIATE; {SCHEMA}; PRAGMA user_version = {VERSION}; COMMIT;"
            ))?,
            (VERSION, _) => {
                let found: String = db.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
                if found != "ok" {
                    return Ok(None);
                }
            }
            _ => return Ok(None),
        }
        let file = identity(path).map_err(|error| failed(&error))?;
        Ok(Some(Self {
            db,
            path: path.to_owned(),
            file,
        }))
    }

    /// Whether its name still leads to the file that is open.
    pub(super) fn is_current(&self) -> bool {
        identity(&self.path).is_ok_and(|file| file == self.file)
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    Ok(Stamp::of(&std::fs::symlink_metadata(path)?).file)
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.to_owned().into_os_string();
    name.push(suffix);
    name.into()
}

fn make_private(path: &Path) -> io::Result<()> {
    let mut options = bxkit::fsx::careful();
    options.write(true).create(true).mode(0o600);
    options.open(path).map(drop)
}

/// What the system said, as an error of the database's.
fn failed(error: &io::Error) -> rusqlite::Error {
    let code = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => rusqlite::ffi::SQLITE_FULL,
        _ => rusqlite::ffi::SQLITE_CANTOPEN,
    };
    rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), Some(error.to_string()))
}
