//! Opening the database, its schema, and its transactions.

use super::error::LedgerError;
use rusqlite::{Connection, OpenFlags};
use std::path::Path;

/// What each version adds to the one before; the position is the version.
const MIGRATIONS: &[&str] = &[
    "
    CREATE TABLE sessions (
        id        TEXT PRIMARY KEY,
        class     TEXT NOT NULL CHECK (class IN ('public', 'private', 'secret')),
        untrusted INTEGER NOT NULL CHECK (untrusted IN (0, 1)),
        parent    TEXT REFERENCES sessions (id),
        rules     TEXT NOT NULL
    ) WITHOUT ROWID;

    CREATE TABLE calls (
        session   TEXT NOT NULL,
        call      INTEGER NOT NULL,
        tool      TEXT NOT NULL,
        arguments TEXT NOT NULL,
        audit     INTEGER NOT NULL,
        result    TEXT,
        PRIMARY KEY (session, call)
    ) WITHOUT ROWID;

    CREATE TRIGGER labels_only_rise BEFORE UPDATE OF class, untrusted ON sessions
    WHEN new.untrusted < old.untrusted
        OR instr('public private secret', new.class) < instr('public private secret', old.class)
    BEGIN SELECT RAISE(ABORT, 'a label only rises'); END;

    CREATE TRIGGER labels_stay BEFORE DELETE ON sessions
    BEGIN SELECT RAISE(ABORT, 'a label outlives its session'); END;

    CREATE TRIGGER parents_stay BEFORE UPDATE OF parent ON sessions
    WHEN new.parent IS NOT old.parent
    BEGIN SELECT RAISE(ABORT, 'a parent is stored once'); END;
",
    "
    CREATE TABLE files (
        root      TEXT NOT NULL,
        path      TEXT NOT NULL,
        class     TEXT NOT NULL CHECK (class IN ('public', 'private', 'secret')),
        untrusted INTEGER NOT NULL CHECK (untrusted IN (0, 1)),
        PRIMARY KEY (root, path)
    ) WITHOUT ROWID;
",
    "
    CREATE TABLE spending (
        tool   TEXT NOT NULL,
        day    TEXT NOT NULL,
        micros INTEGER NOT NULL CHECK (micros >= 0),
        PRIMARY KEY (tool, day)
    ) WITHOUT ROWID;
",
    "
    CREATE TABLE checkpoint (
        one  INTEGER PRIMARY KEY CHECK (one = 1),
        seq  INTEGER NOT NULL CHECK (seq >= 0),
        hash TEXT NOT NULL
    );
",
    "
    CREATE TABLE model_calls (
        session TEXT PRIMARY KEY,
        latest  INTEGER NOT NULL CHECK (latest >= 0)
    ) WITHOUT ROWID;
",
    "
    CREATE TABLE approvals (
        n          INTEGER PRIMARY KEY AUTOINCREMENT,
        id         TEXT NOT NULL UNIQUE,
        session    TEXT NOT NULL,
        call       INTEGER NOT NULL,
        tool       TEXT NOT NULL,
        class      TEXT NOT NULL CHECK (class IN ('public', 'private', 'secret')),
        untrusted  INTEGER NOT NULL CHECK (untrusted IN (0, 1)),
        binding    TEXT NOT NULL,
        shown      TEXT NOT NULL,
        state      TEXT NOT NULL,
        asked_ms   INTEGER NOT NULL,
        expires_ms INTEGER NOT NULL
    );

    CREATE INDEX approvals_of_calls ON approvals (session, call);

    CREATE INDEX open_approvals ON approvals (state) WHERE state IN ('pending', 'approved');

    CREATE TRIGGER approvals_are_used_once BEFORE UPDATE OF state ON approvals
    WHEN old.state NOT IN ('pending', 'approved')
        OR (old.state = 'approved' AND new.state = 'pending')
        OR (old.state = 'pending' AND new.state = 'used')
    BEGIN SELECT RAISE(ABORT, 'an approval is used once'); END;

    CREATE TRIGGER bindings_stay
    BEFORE UPDATE OF id, session, call, tool, binding, shown ON approvals
    BEGIN SELECT RAISE(ABORT, 'what was shown stays'); END;
",
    "
    CREATE TABLE set_aside (
        intent INTEGER PRIMARY KEY,
        tool   TEXT NOT NULL,
        day    TEXT NOT NULL,
        micros INTEGER NOT NULL CHECK (micros >= 0)
    );
",
    "
    CREATE TABLE mcp_seen (
        server      TEXT NOT NULL,
        tool        TEXT NOT NULL,
        description TEXT NOT NULL,
        schema      TEXT NOT NULL,
        PRIMARY KEY (server, tool)
    ) WITHOUT ROWID;

    CREATE TABLE mcp_pins (
        server      TEXT NOT NULL,
        tool        TEXT NOT NULL,
        description TEXT NOT NULL,
        schema      TEXT NOT NULL,
        audit       INTEGER NOT NULL,
        PRIMARY KEY (server, tool)
    ) WITHOUT ROWID;
",
];

/// How many compiled statements are kept.
const CACHED_STATEMENTS: usize = 32;
/// How long a lock of a reader (a backup, the owner's shell) is waited out.
pub(super) const BUSY_TIMEOUT_MS: u64 = 5_000;

/// How far a commit must have come before it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// It survives the death of the process; a power failure may take it back. Enough for the
    /// result of a call that may run again.
    Process,
    /// It is on disk.
    Disk,
}

/// The open ledger.
#[derive(Debug)]
pub struct Ledger {
    pub(super) db: Connection,
    durability: Durability,
}

impl Ledger {
    /// Opens the ledger, making it if it is not there, and checks it.
    pub fn open(path: &Path) -> Result<Self, LedgerError> {
        let failed = |source| LedgerError::Open {
            path: path.to_owned(),
            source,
        };
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(path, flags).map_err(failed)?;
        prepare(&db).map_err(failed)?;
        let found: String = db
            .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
            .map_err(failed)?;
        if found != "ok" {
            return Err(LedgerError::Damaged {
                path: path.to_owned(),
                found,
            });
        }
        migrate(&db, path)?;
        Ok(Self {
            db,
            durability: Durability::Disk,
        })
    }

    /// Begins a transaction that will be committed this far, unless one is under way.
    pub fn begin(&mut self, durability: Durability) -> Result<(), LedgerError> {
        if self.db.is_autocommit() {
            self.set_durability(durability)?;
            self.db.execute_batch("BEGIN IMMEDIATE")?;
        }
        Ok(())
    }

    /// Commits the transaction, if one is under way.
    pub fn commit(&mut self) -> Result<(), LedgerError> {
        if !self.db.is_autocommit() {
            self.db.execute_batch("COMMIT")?;
        }
        Ok(())
    }

    /// Takes back whatever is not committed.
    pub fn roll_back(&mut self) {
        if self.db.is_autocommit() {
            return;
        }
        if let Err(error) = self.db.execute_batch("ROLLBACK") {
            tracing::error!(%error, "a transaction can't be taken back");
        }
    }

    /// Switches between syncing the write-ahead log at each commit and not doing so. A later
    /// synced commit takes the earlier ones to disk with it.
    fn set_durability(&mut self, durability: Durability) -> Result<(), LedgerError> {
        if self.durability != durability {
            let pragma = match durability {
                Durability::Process => "PRAGMA synchronous = NORMAL",
                Durability::Disk => "PRAGMA synchronous = FULL",
            };
            self.db.execute_batch(pragma)?;
            self.durability = durability;
        }
        Ok(())
    }
}

fn prepare(db: &Connection) -> rusqlite::Result<()> {
    db.busy_timeout(std::time::Duration::from_millis(BUSY_TIMEOUT_MS))?;
    db.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
    db.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON;
         PRAGMA trusted_schema = OFF; PRAGMA temp_store = MEMORY;",
    )
}

fn migrate(db: &Connection, path: &Path) -> Result<(), LedgerError> {
    let found: u32 = db.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let known = u32::try_from(MIGRATIONS.len()).unwrap_or(u32::MAX);
    if found > known {
        return Err(LedgerError::Newer {
            path: path.to_owned(),
            found,
            known,
        });
    }
    for (version, migration) in (1_u32..)
        .zip(MIGRATIONS)
        .filter(|(version, _)| *version > found)
    {
        let step =
            format!("BEGIN IMMEDIATE; {migration}; PRAGMA user_version = {version}; COMMIT;");
        db.execute_batch(&step)?;
    }
    Ok(())
}
