//! Labels of files: put on what a call may write before it writes, and joined to what it read.

use super::core::{Batch, Core};
use crate::ledger::{LedgerError, Spot};
use crate::tools::{Tool, Touch};
use bxcore::label::Label;

impl Core {
    /// Labels what a call may write with its writer's label; what reads as well may write all that
    /// it reads.
    pub(super) fn mark_written(
        &mut self,
        tool: &Tool,
        grant: Option<usize>,
        label: Label,
        touch: &Touch,
        batch: &Batch,
    ) -> Result<(), LedgerError> {
        if touch.writes.is_empty() {
            return Ok(());
        }
        self.writing(batch)?;
        let label = match touch.reads.as_slice() {
            [] => label,
            reads => {
                let read = label.join(self.read_label(reads, false));
                self.granted_label(tool, grant, read)
            }
        };
        for spot in &touch.writes {
            self.ledger.raise_written(spot, label)?;
        }
        Ok(())
    }

    /// The join of what was written where a call reads. What can't be told has the highest label.
    pub(super) fn read_label(&self, reads: &[Spot], through_link: bool) -> Label {
        let written = if through_link {
            let widened: Vec<Spot> = reads.iter().map(Spot::widened).collect();
            self.ledger.written_label(&widened)
        } else {
            self.ledger.written_label(reads)
        };
        written.unwrap_or(Label::TOP)
    }

    /// A label, joined with what a grant says of everything that comes back through it.
    pub(super) fn granted_label(&self, tool: &Tool, grant: Option<usize>, label: Label) -> Label {
        let grant = grant.and_then(|number| self.policy.grants.get(number - 1));
        grant.map_or(label, |grant| {
            let untrusted = grant.untrusted.unwrap_or(tool.is_untrusted_by_default());
            label.join(Label::new(grant.result_class(), untrusted))
        })
    }
}
