//! From a batch to the log: records in their order, one sync, checkpoints.

use super::core::{Batch, Core};
use super::job::Note;
use crate::audit::Synced;
use crate::ledger::{Durability, LedgerError};
use bxcore::audit::{Checkpoint, Kind};
use bxcore::money::MicroUsd;
use bxcore::problem::Problem;
use bxkit::fault;

impl Core {
    /// Begins the batch's transaction, unless it has begun.
    pub(super) fn writing(&mut self, batch: &Batch) -> Result<(), LedgerError> {
        self.ledger.begin(batch.durability)
    }

    /// The number that the batch's next record will have.
    pub(super) fn next_number(&self, batch: &Batch) -> u64 {
        self.log.head().seq + batch.notes.len() as u64 + 1
    }

    /// Adds a record to the batch, and gives the number that it will have.
    pub(super) fn note(&self, note: Note, batch: &mut Batch) -> u64 {
        let number = self.next_number(batch);
        batch.notes.push(note);
        number
    }

    /// Gives back what was set aside for a call that was allowed and never made.
    pub(super) fn give_back(&mut self, intent: u64) {
        let given = self
            .ledger
            .begin(Durability::Disk)
            .and_then(|()| self.ledger.charge(intent, MicroUsd::ZERO))
            .and_then(|()| self.ledger.commit());
        if let Err(error) = given {
            // It stays charged, which errs on the side of the limit.
            self.ledger.roll_back();
            tracing::error!(%error, "what a call did not cost can't be given back");
        }
    }

    /// Writes the batch's records, and syncs if one of them asks for it.
    pub(super) fn record(&mut self, batch: &Batch) -> Result<(), Problem> {
        let has = |kind| batch.notes.iter().any(|note| note.kind == kind);
        if has(Kind::Intent) {
            fault::point("brokerd.before-intent");
        }
        let written = self.write(batch);
        if let Err(error) = written {
            let problem = error.problem();
            self.halted = Some(problem.clone());
            return Err(problem);
        }
        if has(Kind::Intent) {
            fault::point("brokerd.after-intent");
        }
        if has(Kind::Outcome) {
            fault::point("brokerd.after-outcome");
        }
        if self.log.is_checkpoint_due((self.now)()) {
            self.checkpoint()?;
        }
        Ok(())
    }

    /// Signs the log as it is. Whatever keeps that from the log ends all granting.
    ///
    /// The ledger only remembers it as well: where it can't, what it remembers is an older one.
    pub(super) fn checkpoint(&mut self) -> Result<Checkpoint, Problem> {
        if let Some(problem) = &self.halted {
            return Err(problem.clone());
        }
        let signed = self.log.checkpoint((self.now)()).map_err(|error| {
            let problem = error.problem();
            self.halted = Some(problem.clone());
            problem
        })?;
        let kept = self
            .ledger
            .begin(Durability::Disk)
            .and_then(|()| self.ledger.keep_signed(&signed))
            .and_then(|()| self.ledger.commit());
        if let Err(error) = kept {
            self.ledger.roll_back();
            tracing::error!(%error, "the ledger can't keep a checkpoint, and has the one before");
        }
        Ok(signed)
    }

    /// Brings everything to disk at the end, and signs it.
    pub(super) fn close(&mut self) {
        self.sync();
        if self.halted.is_none()
            && self.log.is_past_checkpoint()
            && let Err(problem) = self.checkpoint()
        {
            tracing::error!(code = %problem.code, "{problem}");
        }
    }

    fn write(&mut self, batch: &Batch) -> Result<(), crate::audit::AuditError> {
        for note in &batch.notes {
            self.log
                .stage(note.kind, &note.record.borrowed(), (self.now)())?;
        }
        if batch.notes.is_empty() {
            Ok(())
        } else {
            self.log.flush(batch.synced)
        }
    }

    /// Whether something is written that is not on disk for sure, and still can be brought there.
    pub(super) fn needs_sync(&self) -> bool {
        self.halted.is_none() && self.log.needs_sync()
    }

    /// Brings what was written without a sync to disk.
    pub(super) fn sync(&mut self) {
        if !self.needs_sync() {
            return;
        }
        if let Err(error) = self.log.flush(Synced::Now) {
            self.halted = Some(error.problem());
        }
    }
}
