//! What is told of approvals: to the owner, to whoever watches, and to the log.

use super::record_of;
use crate::audit::{Decided, Synced};
use crate::broker::core::{Batch, Core, Fault};
use crate::broker::job::{Note, OwnedRecord};
use crate::ledger::{LedgerError, StoredApproval};
use bxcore::audit::{Kind, sha256_hex};
use bxcore::code::Code;
use bxcore::id::ApprovalId;
use bxcore::problem::Problem;
use bxcore::wire::approval::{self, ApprovalState, Approvals};
use serde_json::{Value, json};

impl Core {
    /// The approvals that wait for the owner.
    pub(in crate::broker) fn pending_approvals(&self) -> Result<Approvals, Fault> {
        let now = (self.now)();
        let open = self.ledger.open_approvals()?.into_iter();
        let pending = open
            .filter(|held| held.state == ApprovalState::Pending && !held.is_late(now))
            .map(|held| self.told(held))
            .collect::<Result<_, _>>()?;
        Ok(Approvals {
            version: *self.approving.version.borrow(),
            pending,
            webhook_failure: None,
        })
    }

    /// One approval, however far it is.
    pub(in crate::broker) fn approval(&self, id: &ApprovalId) -> Result<approval::Approval, Fault> {
        Ok(self.told(self.known_approval(id)?)?)
    }

    pub(super) fn known_approval(&self, id: &ApprovalId) -> Result<StoredApproval, Fault> {
        let held = self.ledger.approval(id)?;
        held.ok_or_else(|| {
            Fault::Request(
                Problem::new(Code::NotFound, format!("There is no approval {id}"))
                    .hint("`boxmaker approvals` lists what waits for you"),
            )
        })
    }

    pub(super) fn told(&self, held: StoredApproval) -> Result<approval::Approval, LedgerError> {
        Ok(approval::Approval {
            lineage: self.ledger.lineage(&held.key.session)?,
            shown_sha256: sha256_hex(held.shown.as_bytes()),
            asked: held.asked.to_string(),
            expires: held.expires.to_string(),
            id: held.id,
            state: held.state,
            session: held.key.session,
            call: held.key.call,
            tool: held.tool,
            label: held.label,
            shown: held.shown,
        })
    }

    pub(super) fn move_to(
        &mut self,
        held: &StoredApproval,
        state: ApprovalState,
        batch: &mut Batch,
    ) -> Result<(), LedgerError> {
        self.writing(batch)?;
        if !self.ledger.move_approval(&held.id, held.state, state)? {
            // One writer, and it has just read the state: a fault of ours, which spoils the batch.
            return Err(LedgerError::Moved(held.id.clone()));
        }
        let held = StoredApproval {
            state,
            ..held.clone()
        };
        self.note_approval(&held, json!({}), batch);
        Ok(())
    }

    pub(super) fn note_approval(
        &mut self,
        held: &StoredApproval,
        mut body: Value,
        batch: &mut Batch,
    ) {
        body["id"] = held.id.as_str().into();
        body["state"] = held.state.name().into();
        body["shown_sha256"] = sha256_hex(held.shown.as_bytes()).into();
        let (decision, reason) = match held.state {
            ApprovalState::Pending | ApprovalState::Used => (None, None),
            ApprovalState::Approved => (Some(Decided::Allow), None),
            ApprovalState::Denied => (Some(Decided::Deny), Some(Code::ApprovalDenied)),
            ApprovalState::Expired => (Some(Decided::Deny), Some(Code::ApprovalExpired)),
            ApprovalState::Withdrawn => (Some(Decided::Deny), Some(Code::Stopped)),
            ApprovalState::Outdated => (Some(Decided::Deny), None),
        };
        let record = OwnedRecord {
            decision,
            reason,
            body: Some(body.to_string().into()),
            ..record_of(held)
        };
        let kind = Kind::Approval;
        self.note(Note { kind, record }, batch);
        batch.synced = Synced::Now;
        approvals_changed(batch);
    }
}

/// Tells whoever watches, once the change is on disk.
pub(super) fn approvals_changed(batch: &mut Batch) {
    batch.after(|core, _| {
        core.look_for_late();
        core.approving.version.send_modify(|version| *version += 1);
    });
}
