//! The accounts of the budget tree.

use super::values::{account_key_or_none, int, maybe_uint, money, parsed, uint};
use crate::budget::{Account, AccountKey, Meter};
use crate::store::state::Stored;
use bxcore::guardrails::Limits;
use bxcore::money::MicroUsd;
use bxcore::usage::Spend;
use rusqlite::{Connection, OptionalExtension, Result, params};

/// Writes an account's row.
pub(in crate::store) fn put_account(
    db: &Connection,
    key: &AccountKey,
    stored: &Stored,
) -> Result<()> {
    let mut put = db.prepare_cached(
        "INSERT INTO accounts (key, parent, depth, limit_tokens, limit_usd, spent_tokens,
             spent_usd, overrun)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
         ON CONFLICT (key) DO UPDATE SET limit_tokens = ?4, limit_usd = ?5, spent_tokens = ?6,
             spent_usd = ?7, overrun = ?8",
    )?;
    let Account {
        limits,
        spent,
        overrun,
        ..
    } = stored.account;
    put.execute(params![
        key.as_str(),
        stored.parent.as_ref().map(AccountKey::as_str),
        int(stored.depth as u64),
        limits.tokens.map(int),
        limits.usd.map(MicroUsd::micros),
        int(spent.tokens),
        spent.usd.micros(),
        overrun.map(Meter::name),
    ])?;
    Ok(())
}

/// Reads an account's row; nothing is reserved on it yet.
pub(in crate::store) fn account(db: &Connection, key: &AccountKey) -> Result<Option<Stored>> {
    let mut get = db.prepare_cached(
        "SELECT parent, depth, limit_tokens, limit_usd, spent_tokens, spent_usd, overrun
         FROM accounts WHERE key = ?1",
    )?;
    get.query_row([key.as_str()], |row| {
        let limit_usd: Option<i64> = row.get(3)?;
        let overrun: Option<String> = row.get(6)?;
        let meter = |name: String| Meter::ALL.into_iter().find(|meter| meter.name() == name);
        Ok(Stored {
            parent: account_key_or_none(row, 0)?,
            depth: usize::try_from(uint(row, 1)?).unwrap_or(usize::MAX),
            account: Account {
                limits: Limits {
                    tokens: maybe_uint(row, 2)?,
                    usd: parsed(3, limit_usd.map(MicroUsd::from_micros).transpose())?,
                },
                spent: Spend {
                    tokens: uint(row, 4)?,
                    usd: money(row, 5)?,
                },
                reserved: Spend::default(),
                // An unknown word stops the account as a known one does.
                overrun: overrun.map(|name| meter(name).unwrap_or(Meter::Tokens)),
            },
        })
    })
    .optional()
}
