//! The last checkpoint of the audit log, kept apart from the log: finds one that was begun anew.

use super::error::LedgerError;
use super::open::Ledger;
use bxcore::audit::Checkpoint;
use rusqlite::{OptionalExtension, params};

impl Ledger {
    /// The number and the hash of the record that was signed last.
    pub fn last_signed(&self) -> Result<Option<(u64, String)>, LedgerError> {
        let mut select = self.db.prepare_cached("SELECT seq, hash FROM checkpoint")?;
        let row = select.query_row([], |row| Ok((row.get::<_, i64>(0)?, row.get(1)?)));
        let found = row.optional()?;
        Ok(found.map(|(seq, hash)| (seq.unsigned_abs(), hash)))
    }

    /// Keeps what was signed, in a transaction of its own.
    pub fn keep_signed(&mut self, checkpoint: &Checkpoint) -> Result<(), LedgerError> {
        let seq = i64::try_from(checkpoint.seq).unwrap_or(i64::MAX);
        let sql = "INSERT INTO checkpoint (one, seq, hash) VALUES (1, ?1, ?2)
                   ON CONFLICT (one) DO UPDATE SET seq = excluded.seq, hash = excluded.hash";
        let mut upsert = self.db.prepare_cached(sql)?;
        upsert.execute(params![seq, checkpoint.hash])?;
        Ok(())
    }
}
