//! The owner gives one object another label. On record first, and only then in force: a crash in
//! between leaves the higher label.

use super::core::{Batch, Core, Fault};
use super::handle::Broker;
use super::job::{Job, Note, OwnedRecord};
use crate::ledger::Spot;
use bxcore::audit::Kind;
use bxcore::code::Code;
use bxcore::label::Label;
use bxcore::problem::Problem;
use bxcore::text::cap;
use bxcore::wire::brokerd::{Endorse, Endorsed};
use serde_json::json;

/// The longest reason that is put on record, in bytes.
const MAX_WHY_BYTES: usize = 2_000;

impl Broker {
    /// Gives a file that a tool wrote the label that the owner says it has.
    ///
    /// # Errors
    /// No tool wrote it, the reason is missing, or it can't be put on record.
    pub async fn endorse(&self, endorse: Endorse) -> Result<Endorsed, Problem> {
        if endorse.why.trim().is_empty() || endorse.why.len() > MAX_WHY_BYTES {
            let title = format!("A reason of 1 to {MAX_WHY_BYTES} bytes is needed, for the record");
            return Err(Problem::new(Code::BadRequest, title));
        }
        let spot = self.places().named(endorse.session.as_ref(), &endorse.path);
        let spot = spot.ok_or_else(|| nothing_there(&endorse.path))?;
        let held = |reply| Job::Written {
            spot: spot.clone(),
            reply,
        };
        let before = self.ask(held).await?;
        let before = before.ok_or_else(|| nothing_there(&endorse.path))?;
        let after = endorse.label;
        let audit = self.write_note(note(&endorse, before)).await?;
        self.ask(|reply| Job::Lower {
            spot: spot.clone(),
            label: after,
            reply,
        })
        .await?;
        Ok(Endorsed {
            before,
            after,
            audit,
        })
    }
}

impl Core {
    /// The label that a file has by what wrote it.
    pub(super) fn written(&self, spot: &Spot) -> Result<Option<Label>, Fault> {
        Ok(self.ledger.own_label(spot)?)
    }

    /// Gives a file the label that is on record for it.
    pub(super) fn lower(&mut self, spot: &Spot, label: Label, batch: &Batch) -> Result<(), Fault> {
        self.writing(batch)?;
        self.ledger.endorse_written(spot, label)?;
        Ok(())
    }
}

fn note(endorse: &Endorse, before: Label) -> Note {
    let body = json!({
        "path": endorse.path,
        "before": before,
        "after": endorse.label,
        "why": endorse.why,
    });
    Note {
        kind: Kind::Endorse,
        record: OwnedRecord {
            session: endorse.session.clone(),
            label: Some(endorse.label),
            body: Some(body.to_string().into()),
            ..OwnedRecord::default()
        },
    }
}

fn nothing_there(path: &str) -> Problem {
    const MAX_SHOWN_BYTES: usize = 200;
    let shown = cap(path, MAX_SHOWN_BYTES);
    Problem::new(Code::NotFound, format!("No tool wrote `{shown}`"))
        .detail("what no tool wrote has the label of its folder")
        .hint("the label of a folder stands in `[[workspace]]` of brokerd.toml; `--session ID` with `.` means a session's own folder")
}
