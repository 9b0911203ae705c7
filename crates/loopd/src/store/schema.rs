//! The database's tables, and how a connection to it is opened and checked.

use super::error::StoreError;
use rusqlite::{Connection, OpenFlags, Transaction};
use std::path::Path;
use std::time::Duration;

/// Marks the file as loopd's ("bxlp"); another program's database is not touched.
const APPLICATION_ID: i64 = 0x6278_6c70;
/// How long a statement waits for another connection of ours.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// How many prepared statements a connection keeps.
const CACHED_STATEMENTS: usize = 64;
/// At this many pages in the write-ahead log a commit moves them into the database itself. The
/// housekeeper does so long before, off the path of commits.
const WAL_PAGES_LIMIT: u32 = 16_384;
/// The write-ahead log's file is cut back to this size once it is empty, in bytes.
const WAL_BYTES_KEPT: u32 = 64 * 1024 * 1024;
/// How much of the database the writer keeps in memory at most, in KiB.
const CACHE_KIB: i32 = 8 * 1024;

/// The newest version of the tables.
const NEWEST: u32 = 2;
/// The steps from one version to the next; `user_version` counts the ones that were taken.
const MIGRATIONS: [&str; NEWEST as usize] = [
    "
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    parent TEXT,
    class TEXT NOT NULL,
    untrusted INTEGER NOT NULL,
    title TEXT NOT NULL,
    updated TEXT NOT NULL,
    last_n INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    turns INTEGER NOT NULL,
    turn INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    call INTEGER NOT NULL,
    model_call INTEGER NOT NULL,
    open_turn INTEGER,
    account TEXT,
    broken TEXT
) STRICT;
CREATE TABLE retired (
    name TEXT PRIMARY KEY,
    turn INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    call INTEGER NOT NULL,
    model_call INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE journal (
    seq INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES sessions (id),
    first_byte INTEGER NOT NULL,
    text TEXT NOT NULL
) STRICT;
CREATE TABLE accounts (
    key TEXT PRIMARY KEY,
    parent TEXT REFERENCES accounts (key) DEFERRABLE INITIALLY DEFERRED,
    depth INTEGER NOT NULL,
    limit_tokens INTEGER,
    limit_usd INTEGER,
    spent_tokens INTEGER NOT NULL,
    spent_usd INTEGER NOT NULL,
    overrun TEXT
) STRICT, WITHOUT ROWID;
CREATE TABLE reservations (
    session TEXT NOT NULL,
    call INTEGER NOT NULL,
    turn INTEGER,
    account TEXT NOT NULL REFERENCES accounts (key) DEFERRABLE INITIALLY DEFERRED,
    tokens INTEGER NOT NULL,
    usd INTEGER NOT NULL,
    backend TEXT NOT NULL,
    model TEXT NOT NULL,
    PRIMARY KEY (session, call)
) STRICT, WITHOUT ROWID;
CREATE TABLE ledger (
    session TEXT NOT NULL,
    call INTEGER NOT NULL,
    turn INTEGER,
    account TEXT NOT NULL,
    backend TEXT NOT NULL,
    model TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    usd INTEGER NOT NULL,
    model_calls INTEGER NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    cache_n INTEGER NOT NULL,
    usage TEXT NOT NULL,
    overrun INTEGER NOT NULL,
    ts TEXT NOT NULL,
    PRIMARY KEY (session, call)
) STRICT, WITHOUT ROWID;
",
    "
CREATE TABLE schedule (
    session TEXT PRIMARY KEY,
    stamp TEXT NOT NULL
) STRICT, WITHOUT ROWID;
",
];

/// Opens the database for the writer, checks it, and brings it to the newest version.
pub(super) fn open_writer(path: &Path, max_pages: Option<u32>) -> Result<Connection, StoreError> {
    let failed = |error| StoreError::database(path, &error);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut db = Connection::open_with_flags(path, flags).map_err(failed)?;
    prepare(&db).map_err(failed)?;
    if check_owner(&db, path)? == Age::Fresh {
        // The switch to a write-ahead log would make one more file, which a confined process may
        // not; an empty database has nothing to lose.
        let kept = db.pragma_update_and_check(None, "journal_mode", "MEMORY", |_| Ok(()));
        kept.map_err(failed)?;
    }
    check_pages(&db, path)?;
    configure(&db, max_pages).map_err(failed)?;
    migrate(&mut db, path)?;
    Ok(db)
}

/// Opens a database that a writer opened before, for the housekeeper.
pub(super) fn open_housekeeper(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags)?;
    prepare(&db)?;
    Ok(db)
}

/// Opens a database for reading.
pub(super) fn open_reader(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags)?;
    prepare(&db)?;
    Ok(db)
}

fn prepare(db: &Connection) -> rusqlite::Result<()> {
    db.busy_timeout(BUSY_TIMEOUT)?;
    db.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
    Ok(())
}

fn configure(db: &Connection, max_pages: Option<u32>) -> rusqlite::Result<()> {
    db.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    db.pragma_update(None, "synchronous", "FULL")?;
    db.pragma_update(None, "foreign_keys", true)?;
    // What a deleted session said is overwritten wherever that costs no extra writes.
    db.pragma_update_and_check(None, "secure_delete", "FAST", |_| Ok(()))?;
    db.pragma_update(None, "temp_store", "MEMORY")?;
    // Negative means KiB, not pages.
    db.pragma_update(None, "cache_size", -CACHE_KIB)?;
    db.pragma_update_and_check(None, "wal_autocheckpoint", WAL_PAGES_LIMIT, |_| Ok(()))?;
    db.pragma_update_and_check(None, "journal_size_limit", WAL_BYTES_KEPT, |_| Ok(()))?;
    if let Some(pages) = max_pages {
        db.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))?;
    }
    Ok(())
}

/// Whether a database has anything in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Age {
    Fresh,
    Used,
}

fn check_owner(db: &Connection, path: &Path) -> Result<Age, StoreError> {
    let failed = |error| StoreError::database(path, &error);
    let ask = |what: &str| db.pragma_query_value(None, what, |row| row.get::<_, i64>(0));
    let owner = ask("application_id").map_err(failed)?;
    let version = ask("user_version").map_err(failed)?;
    let tables = "SELECT count(*) FROM sqlite_schema";
    let tables: i64 = db.query_row(tables, [], |row| row.get(0)).map_err(failed)?;
    let fresh = owner == 0 && version == 0 && tables == 0;
    if !fresh && owner != APPLICATION_ID {
        return Err(StoreError::Database {
            path: path.to_owned(),
            why: "it is a database of another program".to_owned(),
        });
    }
    let version = u32::try_from(version).unwrap_or(u32::MAX);
    if version > NEWEST {
        return Err(StoreError::TooNew {
            path: path.to_owned(),
            version,
            newest: NEWEST,
        });
    }
    Ok(if fresh { Age::Fresh } else { Age::Used })
}

/// Reads every page once: a damaged one is found now, not in the middle of a turn.
fn check_pages(db: &Connection, path: &Path) -> Result<(), StoreError> {
    let verdict = db
        .query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0))
        .map_err(|error| StoreError::database(path, &error))?;
    if verdict == "ok" {
        return Ok(());
    }
    Err(StoreError::Database {
        path: path.to_owned(),
        why: format!("it is damaged: {}", verdict.trim()),
    })
}

fn migrate(db: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let failed = |error| StoreError::database(path, &error);
    let version: u32 = db
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .map_err(failed)?;
    for (step, sql) in (1..).zip(MIGRATIONS).skip(version as usize) {
        let step: u32 = step;
        let transaction = db.transaction().map_err(failed)?;
        take_step(&transaction, step, sql).map_err(failed)?;
        transaction.commit().map_err(failed)?;
    }
    Ok(())
}

fn take_step(transaction: &Transaction<'_>, step: u32, sql: &str) -> rusqlite::Result<()> {
    transaction.execute_batch(sql)?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", step)
}
