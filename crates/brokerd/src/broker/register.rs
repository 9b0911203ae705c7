//! Sessions: made known, looked up, forgotten.

use super::core::{Batch, Core, Fault};
use super::job::{Note, OwnedRecord};
use crate::audit::Synced;
use crate::ledger::SessionRow;
use bxcore::audit::Kind;
use bxcore::id::SessionId;
use bxcore::tool::ToolSpec;
use bxcore::wire::brokerd::{Authority, Register};

impl Core {
    /// Makes a session known, or raises the label of one that is.
    pub(super) fn register(
        &mut self,
        id: SessionId,
        register: &Register,
        batch: &mut Batch,
    ) -> Result<Authority, Fault> {
        let parent = register.parent.as_ref();
        let held = self.ledger.session(&id)?;
        let row = self
            .ledger
            .registered(&id, register.raise, parent, &register.rules)?;
        if held.as_ref() != Some(&row) {
            self.writing(batch)?;
            self.ledger.put_session(&id, &row)?;
        }
        if held.is_none() && row.parent.is_some() {
            self.note_spawn(id, register, &row, batch);
        }
        Ok(Authority {
            label: row.label,
            rules: self.ledger.rules(&row)?,
        })
    }

    fn note_spawn(&self, id: SessionId, register: &Register, row: &SessionRow, batch: &mut Batch) {
        let record = OwnedRecord {
            session: Some(id),
            label: Some(row.label),
            // What was asked for can always be written as JSON again; it came as such.
            body: serde_json::to_string(register).ok(),
            ..OwnedRecord::default()
        };
        self.note(
            Note {
                kind: Kind::Spawn,
                record,
            },
            batch,
        );
        batch.synced = Synced::Now;
    }

    /// What is held of a session.
    pub(super) fn authority(&self, id: &SessionId) -> Result<Authority, Fault> {
        let row = self.ledger.known_session(id)?;
        Ok(Authority {
            label: row.label,
            rules: self.ledger.rules(&row)?,
        })
    }

    /// The tools that a session's rules let it use.
    pub(super) fn tools(&self, id: &SessionId) -> Result<Vec<ToolSpec>, Fault> {
        let row = self.ledger.known_session(id)?;
        let rules = self.ledger.rules(&row)?;
        let tools = self.policy.tools.specs().into_iter();
        let usable = tools.filter(|tool| rules.check(&tool.name, &tool.tags).is_ok());
        Ok(usable.cloned().collect())
    }

    /// Forgets a deleted session's calls, so that a new one of the same id is not answered from
    /// them. What it has read stays known.
    pub(super) fn forget(&mut self, id: SessionId, batch: &mut Batch) -> Result<(), Fault> {
        self.writing(batch)?;
        self.ledger.forget_calls(&id)?;
        batch.after(move |core, done| {
            if done.is_ok() {
                core.lost.retain(|key| key.session != id);
            }
        });
        Ok(())
    }
}
