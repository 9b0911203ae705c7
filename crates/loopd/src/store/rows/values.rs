//! Values between Rust and SQLite. One that breaks its type's rule is damage, and said so.

use crate::budget::AccountKey;
use bxcore::id::SessionId;
use bxcore::label::Label;
use bxcore::money::MicroUsd;
use rusqlite::Result;
use rusqlite::types::{Type, ValueRef};

/// A number as SQLite keeps it. Ours stay below its largest; see `MAX_AMOUNT`.
pub(super) fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn uint(row: &rusqlite::Row<'_>, column: usize) -> Result<u64> {
    let number: i64 = row.get(column)?;
    u64::try_from(number).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, number))
}

pub(super) fn maybe_uint(row: &rusqlite::Row<'_>, column: usize) -> Result<Option<u64>> {
    match row.get_ref(column)? {
        ValueRef::Null => Ok(None),
        _ => uint(row, column).map(Some),
    }
}

pub(super) fn money(row: &rusqlite::Row<'_>, column: usize) -> Result<MicroUsd> {
    parsed(column, MicroUsd::from_micros(row.get(column)?))
}

/// A value whose rule does not hold is damage, reported with its column.
pub(super) fn parsed<T, E>(column: usize, value: std::result::Result<T, E>) -> Result<T>
where
    E: std::error::Error + Send + Sync + 'static,
{
    value.map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error))
    })
}

pub(super) fn session_id(row: &rusqlite::Row<'_>, column: usize) -> Result<SessionId> {
    parsed(column, SessionId::new(row.get::<_, String>(column)?))
}

pub(super) fn account_key(row: &rusqlite::Row<'_>, column: usize) -> Result<AccountKey> {
    parsed(column, AccountKey::new(row.get::<_, String>(column)?))
}

pub(super) fn account_key_or_none(
    row: &rusqlite::Row<'_>,
    column: usize,
) -> Result<Option<AccountKey>> {
    let text: Option<String> = row.get(column)?;
    parsed(column, text.map(AccountKey::new).transpose())
}

pub(super) fn session_id_or_none(
    row: &rusqlite::Row<'_>,
    column: usize,
) -> Result<Option<SessionId>> {
    let text: Option<String> = row.get(column)?;
    parsed(column, text.map(SessionId::new).transpose())
}

/// A label from its class and the column after it; what can't be read is the highest.
pub(super) fn label(row: &rusqlite::Row<'_>, class: usize) -> Result<Label> {
    let name: String = row.get(class)?;
    Ok(Label::parse_stored(&name, row.get(class + 1)?))
}
