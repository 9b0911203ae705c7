//! The owner gives one object another label. On record first, and only then in force: a crash in
//! between leaves the higher label.

use super::core::{Batch, Core, Fault};
use super::handle::Broker;
use super::job::{Job, Note, OwnedRecord, Reply};
use crate::audit::Synced;
use crate::ledger::{Durability, Spot, WHOLE};
use bxcore::audit::Kind;
use bxcore::code::Code;
use bxcore::id::SessionId;
use bxcore::label::Label;
use bxcore::problem::Problem;
use bxcore::text::cap;
use bxcore::wire::brokerd::{Endorse, Endorsed};
use serde_json::json;

/// The longest reason that is put on record, in bytes.
const MAX_WHY_BYTES: usize = 2_000;
/// How much of a path is repeated in an error, in bytes.
const MAX_SHOWN_BYTES: usize = 200;

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
        if let Some(session) = endorse.session.as_ref().filter(|_| endorse.path != WHOLE) {
            return Err(one_label(session, &endorse.path));
        }
        let spot = self.places().named(endorse.session.as_ref(), &endorse.path);
        let spot = spot.ok_or_else(|| nothing_there(&endorse.path))?;
        self.ask(|reply| Job::Endorse {
            endorse,
            spot,
            reply,
        })
        .await
    }
}

impl Core {
    /// Puts what the owner says on record, and then in force, with no other batch in between.
    pub(super) fn endorse(
        &mut self,
        endorse: Endorse,
        spot: Spot,
        reply: Reply<Endorsed>,
        batch: &mut Batch,
    ) -> Result<(), Problem> {
        let before = match self.endorsable(&endorse, &spot) {
            Ok(before) => before,
            Err(fault) => return batch.give(reply, Err(fault)),
        };
        let audit = self.note(note(&endorse, before), batch);
        batch.synced = Synced::Now;
        batch.after(move |core, done| {
            let lowered = done
                .clone()
                .and_then(|()| core.lower(&endorse, &spot, before));
            // Whoever asked may be gone.
            let _ = reply.send(lowered.map(|()| Endorsed {
                before,
                after: endorse.label,
                audit,
            }));
        });
        Ok(())
    }

    /// The label that a place has by what wrote it, if it may be given another.
    fn endorsable(&self, endorse: &Endorse, spot: &Spot) -> Result<Label, Fault> {
        if let Some(session) = &endorse.session {
            self.ledger.known_session(session)?;
        }
        let held = self.ledger.own_label(spot)?;
        let held = held.ok_or_else(|| {
            Fault::Request(match &endorse.session {
                Some(session) => nothing_written(session),
                None => nothing_there(&endorse.path),
            })
        })?;
        if held == endorse.label {
            return Err(Fault::Request(already(&endorse.path, held)));
        }
        if self.is_being_written(spot) {
            return Err(Fault::Request(being_written(&endorse.path)));
        }
        Ok(held)
    }

    /// Gives a place the label that is on record for it, unless a call of the same batch has begun
    /// to write there: what the owner looked at is not what will be there.
    fn lower(&mut self, endorse: &Endorse, spot: &Spot, before: Label) -> Result<(), Problem> {
        if self.is_being_written(spot) || self.ledger.own_label(spot)? != Some(before) {
            return Err(being_written(&endorse.path));
        }
        let lowered = self
            .ledger
            .begin(Durability::Disk)
            .and_then(|()| self.ledger.endorse_written(spot, endorse.label))
            .and_then(|_| self.ledger.commit());
        lowered.map_err(|error| {
            self.ledger.roll_back();
            error.problem()
        })
    }

    fn is_being_written(&self, spot: &Spot) -> bool {
        let mut writes = self.running.values().flat_map(|running| &running.writes);
        writes.any(|written| written.overlaps(spot))
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
    let shown = cap(path, MAX_SHOWN_BYTES);
    Problem::new(Code::NotFound, format!("No tool wrote `{shown}`"))
        .detail("what no tool wrote has the label of its folder")
        .hint("name a file of one of your `[[workspace]]` folders, as tools see it; for a session's own folder: `boxmaker endorse . --session ID …`")
}

fn being_written(path: &str) -> Problem {
    let shown = cap(path, MAX_SHOWN_BYTES);
    Problem::new(
        Code::BadRequest,
        format!("A call writes `{shown}` right now"),
    )
    .detail("what you looked at is not what will be there")
    .hint("look at it again when the call has ended")
}

fn one_label(session: &SessionId, path: &str) -> Problem {
    let title = "A session's own folder has one label for all that is in it";
    let shown = cap(path, MAX_SHOWN_BYTES);
    Problem::new(Code::BadRequest, title)
        .detail(format!("`{shown}` can't have one of its own"))
        .hint(format!(
            "for all of it: `boxmaker endorse . --session {session} …`"
        ))
}

fn nothing_written(session: &SessionId) -> Problem {
    let title = format!("No tool wrote anything in the folder of session `{session}`");
    Problem::new(Code::NotFound, title).detail("it has the session's own label")
}

fn already(path: &str, label: Label) -> Problem {
    let shown = cap(path, MAX_SHOWN_BYTES);
    Problem::new(Code::BadRequest, format!("`{shown}` is {label} already"))
        .detail("nothing was changed")
}
