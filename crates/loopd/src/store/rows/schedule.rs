//! What is known of the entries of the schedule.

use super::values::{parsed, session_id};
use crate::schedule::Stamp;
use bxcore::id::SessionId;
use rusqlite::{Connection, Result, params};
use std::collections::BTreeMap;

/// Everything that is known, by session.
pub(in crate::store) fn stamps(db: &Connection) -> Result<BTreeMap<SessionId, Stamp>> {
    let mut select = db.prepare_cached("SELECT session, stamp FROM schedule")?;
    let rows = select.query_map([], |row| {
        let stamp: String = row.get(1)?;
        Ok((
            session_id(row, 0)?,
            parsed(1, serde_json::from_str(&stamp))?,
        ))
    })?;
    rows.collect()
}

/// Keeps what is known of one.
pub(in crate::store) fn put_stamp(
    db: &Connection,
    session: &SessionId,
    stamp: &Stamp,
) -> Result<()> {
    // Plain data always serialises; an empty text would be told when it is read.
    let stamp = serde_json::to_string(stamp).unwrap_or_default();
    let sql = "INSERT OR REPLACE INTO schedule (session, stamp) VALUES (?1, ?2)";
    db.prepare_cached(sql)?
        .execute(params![session.as_str(), stamp])?;
    Ok(())
}
