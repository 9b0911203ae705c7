//! The results of calls, so that the same call is answered twice and made once.

use super::error::LedgerError;
use super::open::Ledger;
use bxcore::id::{CallId, SessionId};
use bxcore::wire::brokerd::CallResult;
use rusqlite::{OptionalExtension, params};
use std::fmt;

/// How many of a session's latest calls are kept. Only calls of a turn that was cut off by a
/// crash are ever asked for again, and a turn makes far fewer.
pub const KEPT_CALLS: u64 = 256;

/// A call's key: it is made once, whoever asks how often.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    /// The session.
    pub session: SessionId,
    /// Its number for the call.
    pub call: CallId,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call {} of `{}`", self.call, self.session)
    }
}

/// What is recorded of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredCall {
    /// The tool that was called.
    pub tool: String,
    /// The SHA-256 of the arguments, as hex.
    pub arguments_sha256: String,
    /// The number of the decision's audit record.
    pub audit: u64,
    /// How it ended; none if that was lost in a crash.
    pub result: Option<CallResult>,
}

/// What the ledger knows of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recorded {
    /// Nothing: the call is new.
    New,
    /// It was made.
    Made(StoredCall),
    /// It is older than what is kept, so it may have been made.
    Forgotten,
}

impl Ledger {
    /// What is known of a call.
    pub fn call(&self, key: &Key) -> Result<Recorded, LedgerError> {
        let sql =
            "SELECT tool, arguments, audit, result FROM calls WHERE session = ?1 AND call = ?2";
        let mut select = self.db.prepare_cached(sql)?;
        let row = select
            .query_row(params![key.session.as_str(), number(key.call)], |row| {
                Ok((
                    row.get(0)?,
                    row.get(1)?,
                    row.get(2)?,
                    row.get::<_, Option<String>>(3)?,
                ))
            })
            .optional()?;
        if let Some((tool, arguments_sha256, audit, result)) = row {
            let audit: i64 = audit;
            return Ok(Recorded::Made(StoredCall {
                tool,
                arguments_sha256,
                audit: u64::try_from(audit).unwrap_or_default(),
                // A result that can't be read is as good as lost.
                result: result.and_then(|text| serde_json::from_str(&text).ok()),
            }));
        }
        let sql = "SELECT max(call) FROM calls WHERE session = ?1";
        let mut select = self.db.prepare_cached(sql)?;
        let latest: Option<i64> = select.query_row([key.session.as_str()], |row| row.get(0))?;
        let forgotten_up_to = latest
            .unwrap_or(0)
            .saturating_sub(number(CallId(KEPT_CALLS)));
        if number(key.call) <= forgotten_up_to {
            return Ok(Recorded::Forgotten);
        }
        Ok(Recorded::New)
    }

    /// Records how a call ended, or that it is unknown; belongs into a transaction.
    ///
    /// A result that is there already stays: the first one is the one that was given out.
    pub fn put_call(&mut self, key: &Key, stored: &StoredCall) -> Result<(), LedgerError> {
        let sql = "INSERT INTO calls (session, call, tool, arguments, audit, result)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6)
                   ON CONFLICT (session, call) DO UPDATE SET
                       tool = excluded.tool, arguments = excluded.arguments,
                       audit = excluded.audit, result = excluded.result
                   WHERE result IS NULL";
        let result = stored
            .result
            .as_ref()
            .map(serde_json::to_string)
            .transpose();
        let result =
            result.map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
        let mut insert = self.db.prepare_cached(sql)?;
        insert.execute(params![
            key.session.as_str(),
            number(key.call),
            stored.tool,
            stored.arguments_sha256,
            i64::try_from(stored.audit).unwrap_or(i64::MAX),
            result,
        ])?;
        let oldest_kept = number(key.call).saturating_sub(number(CallId(KEPT_CALLS)));
        let mut delete = self
            .db
            .prepare_cached("DELETE FROM calls WHERE session = ?1 AND call <= ?2")?;
        delete.execute(params![key.session.as_str(), oldest_kept])?;
        Ok(())
    }

    /// Forgets the calls of a session that was deleted; its label and rules stay.
    pub fn forget_calls(&mut self, session: &SessionId) -> Result<(), LedgerError> {
        let mut delete = self
            .db
            .prepare_cached("DELETE FROM calls WHERE session = ?1")?;
        delete.execute([session.as_str()])?;
        Ok(())
    }
}

/// A call's number as the database stores it; numbers beyond its range are one that never comes.
pub(super) fn number(call: CallId) -> i64 {
    i64::try_from(call.0).unwrap_or(i64::MAX)
}
