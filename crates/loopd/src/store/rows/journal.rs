//! The journal: lines of transcripts that are committed and may not be in a synced file yet.

use super::values::{int, uint};
use rusqlite::{Connection, OptionalExtension, Result, params};
use std::collections::BTreeMap;

/// Lines that were committed together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store) struct Piece {
    /// Where in the session's file they begin.
    pub(in crate::store) first_byte: u64,
    /// The lines.
    pub(in crate::store) text: String,
}

/// Adds a row.
pub(in crate::store) fn put_piece(
    db: &Connection,
    seq: i64,
    session: i64,
    first_byte: u64,
    text: &str,
) -> Result<()> {
    let sql = "INSERT INTO journal (seq, session, first_byte, text) VALUES (?1, ?2, ?3, ?4)";
    db.prepare_cached(sql)?
        .execute(params![seq, session, int(first_byte), text])?;
    Ok(())
}

/// The number of the last row.
pub(in crate::store) fn last_seq(db: &Connection) -> Result<i64> {
    let sql = "SELECT coalesce(max(seq), 0) FROM journal";
    db.query_row(sql, [], |row| row.get(0))
}

/// A session's rows, in their order. Reads the whole journal, which is short.
pub(in crate::store) fn pieces(db: &Connection, session: i64) -> Result<Vec<Piece>> {
    let sql = "SELECT first_byte, text FROM journal WHERE session = ?1 ORDER BY seq";
    db.prepare_cached(sql)?
        .query_map([session], read)?
        .collect()
}

/// The numbers of all rows, by session and in their order.
pub(in crate::store) fn pieces_by_session(db: &Connection) -> Result<BTreeMap<i64, Vec<i64>>> {
    let mut sessions = BTreeMap::<i64, Vec<i64>>::new();
    let mut get = db.prepare("SELECT session, seq FROM journal ORDER BY seq")?;
    for row in get.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))? {
        let (session, seq) = row?;
        sessions.entry(session).or_default().push(seq);
    }
    Ok(sessions)
}

/// One row by its number.
pub(in crate::store) fn piece(db: &Connection, seq: i64) -> Result<Option<Piece>> {
    let sql = "SELECT first_byte, text FROM journal WHERE seq = ?1";
    db.prepare_cached(sql)?.query_row([seq], read).optional()
}

fn read(row: &rusqlite::Row<'_>) -> Result<Piece> {
    Ok(Piece {
        first_byte: uint(row, 0)?,
        text: row.get(1)?,
    })
}

/// Drops up to `most` of the rows up to number `up_to`; says whether some of them are left.
pub(in crate::store) fn prune(db: &Connection, up_to: i64, most: i64) -> Result<bool> {
    let first: Option<i64> = db.query_row("SELECT min(seq) FROM journal", [], |row| row.get(0))?;
    let Some(first) = first else { return Ok(false) };
    let last = up_to.min(first.saturating_add(most - 1));
    db.prepare_cached("DELETE FROM journal WHERE seq <= ?1")?
        .execute([last])?;
    Ok(last < up_to)
}

/// Drops a session's rows.
pub(in crate::store) fn remove_pieces(db: &Connection, session: i64) -> Result<()> {
    db.execute("DELETE FROM journal WHERE session = ?1", [session])?;
    Ok(())
}
