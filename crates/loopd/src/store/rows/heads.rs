//! The index of sessions.

use super::values::{
    account_key_or_none, int, label, maybe_uint, session_id, session_id_or_none, uint,
};
use crate::budget::AccountKey;
use crate::session::Summary;
use crate::store::state::Head;
use crate::store::views::Unfinished;
use bxcore::id::{CallId, EpochId, ModelCallId, SessionId, TurnId};
use bxcore::wire::loopd::{SessionRow, SessionStatus};
use rusqlite::{Connection, OptionalExtension, Result, params};

const COLUMNS: &str = "id, name, parent, class, untrusted, title, updated, last_n, bytes, turns, \
     turn, epoch, call, model_call, open_turn, account, broken";

/// Writes a session's row.
pub(in crate::store) fn put_head(db: &Connection, name: &SessionId, head: &Head) -> Result<()> {
    let mut put = db.prepare_cached(
        "INSERT INTO sessions (id, name, parent, class, untrusted, title, updated, last_n, bytes,
             turns, turn, epoch, call, model_call, open_turn, account, broken)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, NULL)
         ON CONFLICT (id) DO UPDATE SET class = ?4, untrusted = ?5, title = ?6, updated = ?7,
             last_n = ?8, bytes = ?9, turns = ?10, turn = ?11, epoch = ?12, call = ?13,
             model_call = ?14, open_turn = ?15, account = ?16, broken = NULL",
    )?;
    let of = &head.summary;
    put.execute(params![
        head.row,
        name.as_str(),
        of.parent.as_ref().map(SessionId::as_str),
        of.label.class.name(),
        of.label.untrusted,
        of.title,
        of.updated,
        int(of.last_n),
        int(head.bytes),
        int(of.turns),
        int(of.turn.0),
        int(of.epoch.0),
        int(of.call.0),
        int(of.model_call.0),
        of.open_turn.map(|turn| int(turn.0)),
        head.account.as_ref().map(AccountKey::as_str),
    ])?;
    Ok(())
}

/// Notes that a session's transcript can't be read. The session may have no row yet.
pub(in crate::store) fn put_broken(
    db: &Connection,
    name: &SessionId,
    head: &Head,
    why: &str,
) -> Result<()> {
    put_head(db, name, head)?;
    db.execute(
        "UPDATE sessions SET broken = ?2 WHERE id = ?1",
        params![head.row, why],
    )?;
    Ok(())
}

/// Reads a session's row, and why its transcript can't be read, if so.
pub(in crate::store) fn head(
    db: &Connection,
    name: &SessionId,
) -> Result<Option<(Head, Option<String>)>> {
    let sql = format!("SELECT {COLUMNS} FROM sessions WHERE name = ?1");
    let mut get = db.prepare_cached(&sql)?;
    get.query_row([name.as_str()], |row| Ok((head_of(row)?.1, row.get(16)?)))
        .optional()
}

/// Every session's row, the most recent first.
pub(in crate::store) fn session_rows(db: &Connection) -> Result<Vec<SessionRow>> {
    let sql = format!("SELECT {COLUMNS} FROM sessions ORDER BY updated DESC, id DESC");
    let mut get = db.prepare_cached(&sql)?;
    get.query_map([], shown)?.collect()
}

/// One session's row as it is shown.
pub(in crate::store) fn session_row(
    db: &Connection,
    name: &SessionId,
) -> Result<Option<SessionRow>> {
    let sql = format!("SELECT {COLUMNS} FROM sessions WHERE name = ?1");
    let mut get = db.prepare_cached(&sql)?;
    get.query_row([name.as_str()], shown).optional()
}

fn shown(row: &rusqlite::Row<'_>) -> Result<SessionRow> {
    let (id, Head { summary, .. }) = head_of(row)?;
    let broken: Option<String> = row.get(16)?;
    let status = match (broken, summary.open_turn) {
        (Some(_), _) => SessionStatus::Broken,
        (None, Some(_)) => SessionStatus::Running,
        (None, None) => SessionStatus::Idle,
    };
    Ok(SessionRow {
        id,
        parent: summary.parent,
        status,
        label: summary.label,
        turns: summary.turns,
        updated: summary.updated,
        title: summary.title,
    })
}

fn head_of(row: &rusqlite::Row<'_>) -> Result<(SessionId, Head)> {
    let summary = Summary {
        parent: session_id_or_none(row, 2)?,
        label: label(row, 3)?,
        title: row.get(5)?,
        updated: row.get(6)?,
        last_n: uint(row, 7)?,
        turns: uint(row, 9)?,
        turn: TurnId(uint(row, 10)?),
        epoch: EpochId(uint(row, 11)?),
        call: CallId(uint(row, 12)?),
        model_call: ModelCallId(uint(row, 13)?),
        open_turn: maybe_uint(row, 14)?.map(TurnId),
    };
    let head = Head {
        row: row.get(0)?,
        summary,
        bytes: uint(row, 8)?,
        account: account_key_or_none(row, 15)?,
    };
    Ok((session_id(row, 1)?, head))
}

/// The sessions that have a turn without an end, and can be read.
pub(in crate::store) fn unfinished(db: &Connection) -> Result<Vec<Unfinished>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM sessions
         WHERE open_turn IS NOT NULL AND broken IS NULL ORDER BY id"
    );
    let mut get = db.prepare(&sql)?;
    let found = get.query_map([], |row| {
        let (session, head) = head_of(row)?;
        let account = head.account;
        let unfinished = |turn| Unfinished {
            session,
            turn,
            account,
        };
        Ok(head.summary.open_turn.map(unfinished))
    })?;
    found.filter_map(Result::transpose).collect()
}

/// Every session's name with its row's number.
pub(in crate::store) fn session_names(db: &Connection) -> Result<Vec<(SessionId, i64)>> {
    let mut get = db.prepare("SELECT name, id FROM sessions")?;
    get.query_map([], |row| Ok((session_id(row, 0)?, row.get(1)?)))?
        .collect()
}

/// The highest number of a session's row.
pub(in crate::store) fn last_session_row(db: &Connection) -> Result<i64> {
    db.query_row("SELECT coalesce(max(id), 0) FROM sessions", [], |row| {
        row.get(0)
    })
}

/// Drops a session's row and keeps the highest numbers that it used, for another session of the
/// same name must not use them again: brokerd and the ledger know calls by session and number.
pub(in crate::store) fn remove_session(
    db: &Connection,
    name: &SessionId,
    head: &Head,
) -> Result<()> {
    let of = &head.summary;
    db.execute(
        "INSERT INTO retired (name, turn, epoch, call, model_call) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (name) DO UPDATE SET turn = max(turn, ?2), epoch = max(epoch, ?3),
             call = max(call, ?4), model_call = max(model_call, ?5)",
        params![
            name.as_str(),
            int(of.turn.0),
            int(of.epoch.0),
            int(of.call.0),
            int(of.model_call.0)
        ],
    )?;
    db.execute("DELETE FROM sessions WHERE id = ?1", [head.row])?;
    Ok(())
}

/// The summary that a session of this name begins with: nothing, or the numbers that earlier ones
/// used up.
pub(in crate::store) fn retired(db: &Connection, name: &SessionId) -> Result<Summary> {
    let mut get =
        db.prepare_cached("SELECT turn, epoch, call, model_call FROM retired WHERE name = ?1")?;
    let used = get.query_row([name.as_str()], |row| {
        Ok(Summary {
            turn: TurnId(uint(row, 0)?),
            epoch: EpochId(uint(row, 1)?),
            call: CallId(uint(row, 2)?),
            model_call: ModelCallId(uint(row, 3)?),
            ..Summary::default()
        })
    });
    let used = used.optional()?.unwrap_or_default();
    let charged: u64 = db
        .prepare_cached("SELECT coalesce(max(call), 0) FROM ledger WHERE session = ?1")?
        .query_row([name.as_str()], |row| uint(row, 0))?;
    Ok(Summary {
        model_call: used.model_call.max(ModelCallId(charged)),
        ..used
    })
}

/// Every session's name with the length of its transcript in bytes; none where it can't be read.
pub(in crate::store) fn session_lengths(db: &Connection) -> Result<Vec<(SessionId, Option<u64>)>> {
    let mut get = db.prepare("SELECT name, bytes, broken IS NULL FROM sessions ORDER BY id")?;
    get.query_map([], |row| {
        let readable: bool = row.get(2)?;
        let bytes = uint(row, 1)?;
        Ok((session_id(row, 0)?, readable.then_some(bytes)))
    })?
    .collect()
}

/// Drops a session's row from a copy, unless the copy's journal has the whole transcript; says
/// whether it did.
pub(in crate::store) fn remove_copied_session(db: &Connection, name: &SessionId) -> Result<bool> {
    let Some((head, _)) = head(db, name)? else {
        return Ok(true);
    };
    let pieces = super::journal::pieces(db, head.row)?;
    if pieces.first().is_some_and(|piece| piece.first_byte == 0) {
        return Ok(false);
    }
    super::journal::remove_pieces(db, head.row)?;
    remove_session(db, name, &head)?;
    Ok(true)
}
