//! Which model calls to providers were made, so that none is made twice.

use super::error::LedgerError;
use super::open::Ledger;
use bxcore::id::{ModelCallId, SessionId};
use rusqlite::{OptionalExtension, params};

impl Ledger {
    /// The highest number of a session's model calls to providers; none before the first.
    pub fn latest_model_call(
        &self,
        session: &SessionId,
    ) -> Result<Option<ModelCallId>, LedgerError> {
        let sql = "SELECT latest FROM model_calls WHERE session = ?1";
        let mut select = self.db.prepare_cached(sql)?;
        let latest: Option<i64> = select
            .query_row([session.as_str()], |row| row.get(0))
            .optional()?;
        // What can't be read as a number is as good as the last one.
        Ok(latest.map(|latest| ModelCallId(u64::try_from(latest).unwrap_or(u64::MAX))))
    }

    /// Notes that a model call is made; belongs into a transaction that is on disk before it is.
    ///
    /// A deleted session's stays, as loopd's own count does.
    pub fn put_model_call(
        &mut self,
        session: &SessionId,
        call: ModelCallId,
    ) -> Result<(), LedgerError> {
        let sql = "INSERT INTO model_calls (session, latest) VALUES (?1, ?2)
                   ON CONFLICT (session) DO UPDATE SET latest = max(latest, excluded.latest)";
        let latest = i64::try_from(call.0).unwrap_or(i64::MAX);
        let mut upsert = self.db.prepare_cached(sql)?;
        upsert.execute(params![session.as_str(), latest])?;
        Ok(())
    }
}
