//! Model calls: what is held for those under way, and the ledger of those that ended.

use super::values::{account_key, int, maybe_uint, money, parsed, session_id, uint};
use crate::store::state::{CallKey, Held};
use crate::store::views::LedgerRow;
use bxcore::id::{BackendName, ModelCallId, SessionId, TurnId};
use bxcore::usage::{Spend, Usage, UsageSource};
use rusqlite::{Connection, Result, params};

fn source_name(source: UsageSource) -> &'static str {
    match source {
        UsageSource::Reported => "reported",
        UsageSource::Estimated => "estimated",
        UsageSource::Lost => "lost",
    }
}

/// Notes what is held for a call.
pub(in crate::store) fn put_reservation(
    db: &Connection,
    (session, call): &CallKey,
    held: &Held,
) -> Result<()> {
    let mut put = db.prepare_cached(
        "INSERT INTO reservations (session, call, turn, account, tokens, usd, backend, model)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?;
    put.execute(params![
        session.as_str(),
        int(call.0),
        held.turn.map(|turn| int(turn.0)),
        held.account.as_str(),
        int(held.amount.tokens),
        held.amount.usd.micros(),
        held.backend.as_str(),
        held.model,
    ])?;
    Ok(())
}

/// Drops what was held for a call.
pub(in crate::store) fn remove_reservation(
    db: &Connection,
    (session, call): &CallKey,
) -> Result<()> {
    let sql = "DELETE FROM reservations WHERE session = ?1 AND call = ?2";
    db.prepare_cached(sql)?
        .execute(params![session.as_str(), int(call.0)])?;
    Ok(())
}

/// Everything that is held for calls, as of the last commit.
pub(in crate::store) fn reservations(db: &Connection) -> Result<Vec<(CallKey, Held)>> {
    let mut get = db.prepare(
        "SELECT session, call, turn, account, tokens, usd, backend, model FROM reservations",
    )?;
    get.query_map([], |row| {
        let held = Held {
            turn: maybe_uint(row, 2)?.map(TurnId),
            account: account_key(row, 3)?,
            amount: Spend {
                tokens: uint(row, 4)?,
                usd: money(row, 5)?,
            },
            backend: parsed(6, BackendName::new(row.get::<_, String>(6)?))?,
            model: row.get(7)?,
        };
        Ok(((session_id(row, 0)?, ModelCallId(uint(row, 1)?)), held))
    })?
    .collect()
}

/// Adds a call to the ledger.
pub(in crate::store) fn put_charge(db: &Connection, charge: &LedgerRow) -> Result<()> {
    let mut put = db.prepare_cached(
        "INSERT INTO ledger (session, call, turn, account, backend, model, tokens, usd,
             model_calls, prompt_tokens, completion_tokens, cache_n, usage, overrun, ts)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
    )?;
    put.execute(params![
        charge.session.as_str(),
        int(charge.call.0),
        charge.turn.map(|turn| int(turn.0)),
        charge.account,
        charge.backend.as_str(),
        charge.model,
        int(charge.charged.tokens),
        charge.charged.usd.micros(),
        int(charge.usage.model_calls),
        int(charge.usage.prompt_tokens),
        int(charge.usage.completion_tokens),
        int(charge.usage.cache_n),
        source_name(charge.source),
        charge.overrun,
        charge.ts,
    ])?;
    Ok(())
}

/// A session's calls in the ledger, in their order.
pub(in crate::store) fn ledger(db: &Connection, session: &SessionId) -> Result<Vec<LedgerRow>> {
    let mut get = db.prepare_cached(
        "SELECT session, call, turn, account, backend, model, tokens, usd, model_calls,
             prompt_tokens, completion_tokens, cache_n, usage, overrun, ts
         FROM ledger WHERE session = ?1 ORDER BY call",
    )?;
    get.query_map([session.as_str()], |row| {
        let source: String = row.get(12)?;
        let source = [UsageSource::Reported, UsageSource::Estimated]
            .into_iter()
            .find(|known| source_name(*known) == source)
            .unwrap_or(UsageSource::Lost);
        let prompt_tokens = uint(row, 9)?;
        Ok(LedgerRow {
            session: session_id(row, 0)?,
            call: ModelCallId(uint(row, 1)?),
            turn: maybe_uint(row, 2)?.map(TurnId),
            account: row.get(3)?,
            backend: parsed(4, BackendName::new(row.get::<_, String>(4)?))?,
            model: row.get(5)?,
            charged: Spend {
                tokens: uint(row, 6)?,
                usd: money(row, 7)?,
            },
            usage: Usage {
                model_calls: uint(row, 8)?,
                prompt_tokens,
                completion_tokens: uint(row, 10)?,
                cache_n: uint(row, 11)?,
                assumed_tokens: if source == UsageSource::Lost {
                    prompt_tokens
                } else {
                    0
                },
            },
            source,
            overrun: row.get(13)?,
            ts: row.get(14)?,
        })
    })?
    .collect()
}
