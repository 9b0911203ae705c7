//! What the owner was asked, and what came of it.

use super::calls::{Key, number};
use super::error::LedgerError;
use super::open::Ledger;
use bxcore::id::{ApprovalId, CallId, SessionId};
use bxcore::label::Label;
use bxcore::tool::ToolName;
use bxcore::wire::approval::ApprovalState;
use jiff::Timestamp;
use rusqlite::{OptionalExtension, Row, params};

/// How many approvals that are over are kept, the latest; the audit log has all of them.
pub const KEPT_APPROVALS: u32 = 1_024;

const COLUMNS: &str = "id, session, call, tool, class, untrusted, binding, shown, state,
    asked_ms, expires_ms";

/// An approval as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredApproval {
    /// Its id.
    pub id: ApprovalId,
    /// The call that it is for.
    pub key: Key,
    /// The call's tool.
    pub tool: ToolName,
    /// The label that the call was judged by.
    pub label: Label,
    /// What it is bound to; see [`crate::approval::Binding::to_text`].
    pub binding: String,
    /// What the owner is shown.
    pub shown: String,
    /// How far it is.
    pub state: ApprovalState,
    /// When it was asked for.
    pub asked: Timestamp,
    /// When it is too late.
    pub expires: Timestamp,
}

impl StoredApproval {
    /// Whether it is too late at this time. A clock that was set back to before the question makes
    /// it so, too: nobody can tell how long it has waited.
    pub fn is_late(&self, now: Timestamp) -> bool {
        now >= self.expires || now < self.asked
    }

    /// Whether it still can come to a call.
    pub fn is_open(&self) -> bool {
        matches!(self.state, ApprovalState::Pending | ApprovalState::Approved)
    }
}

impl Ledger {
    /// Keeps a new approval; belongs into a transaction.
    pub fn put_approval(&mut self, approval: &StoredApproval) -> Result<(), LedgerError> {
        let sql = "INSERT INTO approvals (id, session, call, tool, class, untrusted, binding,
                       shown, state, asked_ms, expires_ms)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
        let mut insert = self.db.prepare_cached(sql)?;
        insert.execute(params![
            approval.id.as_str(),
            approval.key.session.as_str(),
            number(approval.key.call),
            approval.tool.as_str(),
            approval.label.class.name(),
            approval.label.untrusted,
            approval.binding,
            approval.shown,
            approval.state.name(),
            approval.asked.as_millisecond(),
            approval.expires.as_millisecond(),
        ])?;
        let sql = "DELETE FROM approvals WHERE state NOT IN ('pending', 'approved')
                       AND n <= (SELECT max(n) FROM approvals) - ?1";
        let mut delete = self.db.prepare_cached(sql)?;
        delete.execute([KEPT_APPROVALS])?;
        Ok(())
    }

    /// The approval of this id.
    pub fn approval(&self, id: &ApprovalId) -> Result<Option<StoredApproval>, LedgerError> {
        let sql = format!("SELECT {COLUMNS} FROM approvals WHERE id = ?1");
        let mut select = self.db.prepare_cached(&sql)?;
        Ok(select.query_row([id.as_str()], read).optional()?)
    }

    /// The latest approval of a call.
    pub fn approval_of(&self, key: &Key) -> Result<Option<StoredApproval>, LedgerError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM approvals WHERE session = ?1 AND call = ?2 ORDER BY n DESC LIMIT 1"
        );
        let mut select = self.db.prepare_cached(&sql)?;
        let found = select.query_row(params![key.session.as_str(), number(key.call)], read);
        Ok(found.optional()?)
    }

    /// The approvals that can still come to a call, the oldest first.
    pub fn open_approvals(&self) -> Result<Vec<StoredApproval>, LedgerError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM approvals WHERE state IN ('pending', 'approved') ORDER BY n"
        );
        let mut select = self.db.prepare_cached(&sql)?;
        let rows = select.query_map([], read)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// When the next open approval is late; none if nothing waits.
    pub fn next_expiry(&self) -> Result<Option<Timestamp>, LedgerError> {
        let sql = "SELECT min(expires_ms) FROM approvals WHERE state IN ('pending', 'approved')";
        let mut select = self.db.prepare_cached(sql)?;
        let next: Option<i64> = select.query_row([], |row| row.get(0))?;
        Ok(next.and_then(|ms| Timestamp::from_millisecond(ms).ok()))
    }

    /// How many approvals are open.
    pub fn count_open_approvals(&self) -> Result<usize, LedgerError> {
        let sql = "SELECT count(*) FROM approvals WHERE state IN ('pending', 'approved')";
        let mut select = self.db.prepare_cached(sql)?;
        let count: i64 = select.query_row([], |row| row.get(0))?;
        Ok(usize::try_from(count).unwrap_or(usize::MAX))
    }

    /// Forgets the approvals of a session that was deleted, so that none of them answers a call of
    /// a later session of the same id; belongs into a transaction.
    pub fn forget_approvals(&mut self, session: &SessionId) -> Result<(), LedgerError> {
        let mut delete = self
            .db
            .prepare_cached("DELETE FROM approvals WHERE session = ?1")?;
        delete.execute([session.as_str()])?;
        Ok(())
    }

    /// Changes how far an approval is; belongs into a transaction. Gives whether it was as far as
    /// `from` says: of two that change it, one does.
    #[must_use = "an approval that was not moved must not be acted on"]
    pub fn move_approval(
        &mut self,
        id: &ApprovalId,
        from: ApprovalState,
        to: ApprovalState,
    ) -> Result<bool, LedgerError> {
        let sql = "UPDATE approvals SET state = ?3 WHERE id = ?1 AND state = ?2";
        let mut update = self.db.prepare_cached(sql)?;
        Ok(update.execute(params![id.as_str(), from.name(), to.name()])? == 1)
    }
}

fn read(row: &Row<'_>) -> rusqlite::Result<StoredApproval> {
    let class: String = row.get(4)?;
    let state: String = row.get(8)?;
    let call: i64 = row.get(2)?;
    Ok(StoredApproval {
        id: text(row, 0, ApprovalId::new)?,
        key: Key {
            session: text(row, 1, SessionId::new)?,
            call: CallId(u64::try_from(call).unwrap_or_default()),
        },
        tool: text(row, 3, ToolName::new)?,
        label: Label::parse_stored(&class, row.get(5)?),
        binding: row.get(6)?,
        shown: row.get(7)?,
        // What can't be read is nothing that could run.
        state: ApprovalState::parse(&state).unwrap_or(ApprovalState::Outdated),
        asked: time(row, 9)?,
        expires: time(row, 10)?,
    })
}

fn text<T, E: std::error::Error + Send + Sync + 'static>(
    row: &Row<'_>,
    column: usize,
    parse: impl FnOnce(String) -> Result<T, E>,
) -> rusqlite::Result<T> {
    parse(row.get(column)?).map_err(|error| unreadable(column, error.into()))
}

fn time(row: &Row<'_>, column: usize) -> rusqlite::Result<Timestamp> {
    Timestamp::from_millisecond(row.get(column)?).map_err(|error| unreadable(column, error.into()))
}

fn unreadable(column: usize, error: Box<dyn std::error::Error + Send + Sync>) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, error)
}
