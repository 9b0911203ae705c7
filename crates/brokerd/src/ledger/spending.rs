//! What was spent elsewhere on each day, so that the day's limit holds over restarts.

use super::error::LedgerError;
use super::open::Ledger;
use bxcore::money::MicroUsd;
use jiff::civil::Date;
use rusqlite::{OptionalExtension, params};

impl Ledger {
    /// What a tool has spent on a day (UTC), with what is set aside for calls under way.
    pub fn spent(&self, tool: &str, day: Date) -> Result<MicroUsd, LedgerError> {
        let sql = "SELECT micros FROM spending WHERE tool = ?1 AND day = ?2";
        let mut select = self.db.prepare_cached(sql)?;
        let micros: Option<i64> = select
            .query_row(params![tool, day.to_string()], |row| row.get(0))
            .optional()?;
        // The table admits nothing below zero.
        Ok(MicroUsd::from_micros(micros.unwrap_or(0)).unwrap_or(MicroUsd::MAX))
    }

    /// Counts a call's whole reservation as spent; belongs into a transaction that is on disk
    /// before the call is made. A call that is cut off by a crash so stays charged for all of it.
    pub fn set_aside(
        &mut self,
        tool: &str,
        day: Date,
        reserved: MicroUsd,
    ) -> Result<(), LedgerError> {
        self.change(tool, day, reserved, MicroUsd::ZERO)
    }

    /// Counts what a call cost in place of what was set aside for it on that day; belongs into a
    /// transaction.
    pub fn charge(
        &mut self,
        tool: &str,
        day: Date,
        reserved: MicroUsd,
        cost: MicroUsd,
    ) -> Result<(), LedgerError> {
        self.change(tool, day, cost, reserved)
    }

    fn change(
        &mut self,
        tool: &str,
        day: Date,
        plus: MicroUsd,
        minus: MicroUsd,
    ) -> Result<(), LedgerError> {
        let total = self.spent(tool, day)?;
        let total = total.saturating_add(plus).saturating_sub(minus);
        let sql = "INSERT INTO spending (tool, day, micros) VALUES (?1, ?2, ?3)
                   ON CONFLICT (tool, day) DO UPDATE SET micros = excluded.micros";
        let mut upsert = self.db.prepare_cached(sql)?;
        upsert.execute(params![tool, day.to_string(), total.micros()])?;
        Ok(())
    }
}
