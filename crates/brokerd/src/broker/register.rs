//! Sessions: made known, looked up, forgotten.

use super::core::{Batch, Core, Fault, Policy};
use super::job::{Note, OwnedRecord};
use crate::audit::Synced;
use crate::decision::needs_grant;
use crate::ledger::SessionRow;
use bxcore::audit::{Kind, sha256_hex};
use bxcore::guardrails::ToolRules;
use bxcore::id::SessionId;
use bxcore::tool::{CORE_TOOLS, ToolName, ToolSpec, is_loopds_own};
use bxcore::wire::brokerd::{Authority, Register};
use std::sync::Arc;

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
        self.authority_of(&row)
    }

    /// Whether a registration changes nothing of what is held. Those of children are not looked at
    /// that closely.
    pub(super) fn is_registered(&self, id: &SessionId, register: &Register) -> bool {
        let Ok(Some(held)) = self.ledger.session(id) else {
            return false;
        };
        held.parent.is_none()
            && register.raise.is_within(held.label)
            && register.rules == held.rules
    }

    fn note_spawn(&self, id: SessionId, register: &Register, row: &SessionRow, batch: &mut Batch) {
        let record = OwnedRecord {
            session: Some(id),
            label: Some(row.label),
            // What was asked for can always be written as JSON again; it came as such.
            body: serde_json::to_string(register).ok().map(Arc::from),
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
    pub(super) fn authority(&mut self, id: &SessionId) -> Result<Authority, Fault> {
        let row = self.ledger.known_session(id)?;
        self.authority_of(&row)
    }

    fn authority_of(&mut self, row: &SessionRow) -> Result<Authority, Fault> {
        let rules = self.ledger.rules(row)?;
        Ok(Authority {
            label: row.label,
            tools_sha256: self.listed.sha256(&usable(&self.policy, &rules)),
            rules,
        })
    }

    /// The tools that a session's rules let it use. One that needs a grant and has none is not
    /// offered: it could only be refused.
    pub(super) fn tools(&self, id: &SessionId) -> Result<Vec<ToolSpec>, Fault> {
        let row = self.ledger.known_session(id)?;
        let rules = self.ledger.rules(&row)?;
        let usable = usable(&self.policy, &rules).into_iter();
        Ok(usable.cloned().collect())
    }

    /// Forgets a deleted session's calls, so that a new one of the same id is not answered from
    /// them. What it has read stays known.
    pub(super) fn forget(&mut self, id: SessionId, batch: &mut Batch) -> Result<(), Fault> {
        self.withdraw_all(&id, batch)?;
        self.writing(batch)?;
        self.ledger.forget_calls(&id)?;
        self.ledger.forget_approvals(&id)?;
        batch.after(move |core, done| {
            if done.is_ok() {
                core.lost.retain(|key| key.session != id);
            }
        });
        Ok(())
    }
}

/// The tools that a session can find, by its rules and the owner's grants, by name. Those of the tools
/// array need no finding.
fn usable<'a>(policy: &'a Policy, rules: &ToolRules) -> Vec<&'a ToolSpec> {
    let is_granted = |tool: &ToolSpec| policy.grants.iter().any(|grant| grant.tool == tool.name);
    let mut usable = policy.tools.specs();
    usable.retain(|tool| {
        !CORE_TOOLS.contains(&tool.name.as_str())
            && !is_loopds_own(tool.name.as_str())
            && policy.lacks(&tool.name).is_none()
            && (is_granted(tool) || !needs_grant(tool))
            && rules.check(&tool.name, &tool.tags).is_ok()
    });
    usable
}

/// The list of tools whose hash was asked for last: nearly every session's is the same.
#[derive(Debug, Default)]
pub(super) struct Listed {
    names: Vec<ToolName>,
    sha256: String,
}

impl Listed {
    /// The hash of a list as it is sent. Tools stay what they are until this is begun anew, so that
    /// their names tell a list.
    fn sha256(&mut self, tools: &[&ToolSpec]) -> String {
        let names = tools.iter().map(|tool| &tool.name);
        if self.sha256.is_empty() || !names.clone().eq(&self.names) {
            // What was read from JSON can be written as such; a wrong hash has the list read again.
            let text = serde_json::to_vec(tools).unwrap_or_default();
            self.sha256 = sha256_hex(&text);
            self.names = names.cloned().collect();
        }
        self.sha256.clone()
    }
}
