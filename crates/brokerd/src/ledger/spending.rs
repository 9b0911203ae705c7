//! What was spent elsewhere on each day, so that the day's limit holds over restarts.

use super::error::LedgerError;
use super::open::Ledger;
use bxcore::money::MicroUsd;
use jiff::civil::Date;
use rusqlite::{OptionalExtension, Row, params};

impl Ledger {
    /// What a tool has spent on a day (UTC), with what is set aside for calls under way.
    pub fn spent(&self, tool: &str, day: Date) -> Result<MicroUsd, LedgerError> {
        self.spent_on(tool, &day.to_string())
    }

    fn spent_on(&self, tool: &str, day: &str) -> Result<MicroUsd, LedgerError> {
        let sql = "SELECT micros FROM spending WHERE tool = ?1 AND day = ?2";
        let mut select = self.db.prepare_cached(sql)?;
        let micros: Option<i64> = select
            .query_row(params![tool, day], |row| row.get(0))
            .optional()?;
        Ok(micros.map_or(MicroUsd::ZERO, amount))
    }

    /// Counts a call's whole reservation as spent, under the number of its intent in the audit log;
    /// belongs into a transaction that is on disk before the call is made.
    pub fn set_aside(
        &mut self,
        intent: u64,
        tool: &str,
        day: Date,
        reserved: MicroUsd,
    ) -> Result<(), LedgerError> {
        let sql = "INSERT INTO set_aside (intent, tool, day, micros) VALUES (?1, ?2, ?3, ?4)";
        let mut insert = self.db.prepare_cached(sql)?;
        let (intent, day_text) = (number(intent), day.to_string());
        insert.execute(params![intent, tool, day_text, reserved.micros()])?;
        drop(insert);
        self.change(tool, &day_text, reserved, MicroUsd::ZERO)
    }

    /// Counts what a call cost in place of what was set aside for it, nothing if it was never made;
    /// belongs into a transaction. The day is that on which it was set aside.
    pub fn charge(&mut self, intent: u64, cost: MicroUsd) -> Result<(), LedgerError> {
        let sql = "DELETE FROM set_aside WHERE intent = ?1 RETURNING intent, tool, day, micros";
        let mut delete = self.db.prepare_cached(sql)?;
        let held: Option<HeldRow> = delete.query_row([number(intent)], held_row).optional()?;
        drop(delete);
        match held {
            Some((_, tool, day, reserved)) => self.change(&tool, &day, cost, reserved),
            None => Ok(()),
        }
    }

    /// Settles what was set aside for calls that a death cut off; belongs into a transaction.
    ///
    /// One whose intent is on record may have been made, and stays charged for all of it. One whose
    /// intent is not, was not made.
    pub fn settle_set_aside(
        &mut self,
        may_have_been_made: impl Fn(u64) -> bool,
    ) -> Result<(), LedgerError> {
        let sql = "SELECT intent, tool, day, micros FROM set_aside";
        let mut select = self.db.prepare_cached(sql)?;
        let held: Vec<_> = select
            .query_map([], held_row)?
            .collect::<rusqlite::Result<_>>()?;
        drop(select);
        for (intent, tool, day, reserved) in held {
            if !may_have_been_made(intent) {
                self.change(&tool, &day, MicroUsd::ZERO, reserved)?;
            }
        }
        self.db.execute("DELETE FROM set_aside", [])?;
        Ok(())
    }

    fn change(
        &mut self,
        tool: &str,
        day: &str,
        plus: MicroUsd,
        minus: MicroUsd,
    ) -> Result<(), LedgerError> {
        let total = self.spent_on(tool, day)?;
        let total = total.saturating_add(plus).saturating_sub(minus);
        let sql = "INSERT INTO spending (tool, day, micros) VALUES (?1, ?2, ?3)
                   ON CONFLICT (tool, day) DO UPDATE SET micros = excluded.micros";
        let mut upsert = self.db.prepare_cached(sql)?;
        upsert.execute(params![tool, day, total.micros()])?;
        Ok(())
    }
}

/// Intent, tool, day and amount of something that is set aside.
type HeldRow = (u64, String, String, MicroUsd);

fn held_row(row: &Row<'_>) -> rusqlite::Result<HeldRow> {
    let intent: i64 = row.get(0)?;
    Ok((
        intent.unsigned_abs(),
        row.get(1)?,
        row.get(2)?,
        amount(row.get(3)?),
    ))
}

/// The tables admit nothing below zero.
fn amount(micros: i64) -> MicroUsd {
    MicroUsd::from_micros(micros).unwrap_or(MicroUsd::MAX)
}

fn number(intent: u64) -> i64 {
    i64::try_from(intent).unwrap_or(i64::MAX)
}
