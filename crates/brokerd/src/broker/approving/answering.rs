//! How a question ends: with the owner's answer, too late, or because nobody wants it answered.

use super::{Parked, record_of};
use crate::audit::Decided;
use crate::broker::answer;
use crate::broker::core::{Batch, Core, Fault};
use crate::broker::job::{Begun, Note, OwnedRecord, Reply};
use crate::ledger::{Key, Recorded, StoredApproval, StoredCall};
use bxcore::audit::{Kind, sha256_hex};
use bxcore::code::Code;
use bxcore::id::{ApprovalId, SessionId};
use bxcore::problem::Problem;
use bxcore::wire::approval::{self, Answer, ApprovalState, Said};
use bxcore::wire::brokerd::CallResult;
use jiff::Timestamp;
use serde_json::Value;
use std::time::Duration;

impl Core {
    /// Takes the owner's answer, and goes on with the call if somebody waits for it.
    pub(in crate::broker) fn answer_approval(
        &mut self,
        id: &ApprovalId,
        answer: &Answer,
        reply: Reply<approval::Approval>,
        batch: &mut Batch,
    ) -> Result<(), Problem> {
        let key = self
            .ledger
            .approval(id)
            .map(|held| held.map(|held| held.key));
        let answered = self.take_answer(id, answer, batch);
        batch.give(reply, answered)?;
        // Too late is an answer as well.
        match key.map_err(Problem::from)? {
            Some(key) => self.go_on(&key, batch),
            None => Ok(()),
        }
    }

    fn take_answer(
        &mut self,
        id: &ApprovalId,
        answer: &Answer,
        batch: &mut Batch,
    ) -> Result<approval::Approval, Fault> {
        let held = self.known_approval(id)?;
        if held.is_open() && held.is_late((self.now)()) {
            self.move_to(&held, ApprovalState::Expired, batch)?;
            return Err(Fault::Request(not_pending(id, ApprovalState::Expired)));
        }
        if held.state != ApprovalState::Pending {
            return Err(Fault::Request(not_pending(id, held.state)));
        }
        if answer.shown_sha256 != sha256_hex(held.shown.as_bytes()) {
            let title = format!("What was shown is not what approval {id} is for");
            return Err(Fault::Request(
                Problem::new(Code::BadRequest, title)
                    .hint(format!("look again: `boxmaker approve {id}`")),
            ));
        }
        let to = match answer.said {
            Said::Approve => ApprovalState::Approved,
            Said::Deny => ApprovalState::Denied,
        };
        self.move_to(&held, to, batch)?;
        Ok(self.told(StoredApproval { state: to, ..held })?)
    }

    /// Decides a call anew for all who wait for it.
    fn go_on(&mut self, key: &Key, batch: &mut Batch) -> Result<(), Problem> {
        let mut done = Ok(());
        for Parked { request, reply } in self.approving.parked.remove(key).unwrap_or_default() {
            match &done {
                Ok(()) => done = self.begin(request, reply, batch),
                // Nobody is left without an answer.
                Err(problem) => {
                    let _ = reply.send(Err(Problem::clone(problem)));
                }
            }
        }
        done
    }

    /// Ends the wait of a call that is not wanted any more, or gives the end that it has already;
    /// none if it runs, or nobody knows.
    pub(in crate::broker) fn withdraw(
        &mut self,
        key: &Key,
        batch: &mut Batch,
    ) -> Result<Option<CallResult>, Fault> {
        if self.running.contains_key(key) {
            return Ok(None);
        }
        let held = self.ledger.approval_of(key)?;
        let Some(held) = held.filter(StoredApproval::is_open) else {
            return self.withdraw_unseen(key, batch);
        };
        self.move_to(&held, ApprovalState::Withdrawn, batch)?;
        let arguments = serde_json::from_str::<Value>(&held.binding).unwrap_or_default();
        let arguments = arguments["arguments"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let sha256 = sha256_hex(arguments.as_bytes());
        let record = OwnedRecord {
            decision: Some(Decided::Deny),
            reason: Some(Code::Stopped),
            body: Some(arguments.into()),
            ..record_of(&held)
        };
        let audit = self.note(
            Note {
                kind: Kind::Deny,
                record,
            },
            batch,
        );
        let result = answer::withdrawn(held.label, audit);
        self.ledger.put_call(
            key,
            &StoredCall {
                tool: held.tool.as_str().to_owned(),
                arguments_sha256: sha256,
                audit,
                result: Some(result.clone()),
            },
        )?;
        for waiting in self.approving.parked.remove(key).unwrap_or_default() {
            let result = Begun::Ended(Box::new(result.clone()));
            batch.after(|_, done| {
                let _ = waiting.reply.send(done.clone().map(|()| result));
            });
        }
        Ok(Some(result))
    }

    /// Ends a call that has not come yet: a stop overtook it on its way. Whatever comes under its
    /// number is another call from then on.
    fn withdraw_unseen(&mut self, key: &Key, batch: &Batch) -> Result<Option<CallResult>, Fault> {
        let session = self.ledger.known_session(&key.session)?;
        match self.ledger.call(key)? {
            _ if self.lost.contains(key) => return Ok(None),
            Recorded::New => {}
            // It ended before the stop came: what it did is known, and must not be told as unknown.
            Recorded::Made(StoredCall {
                result: Some(mut result),
                ..
            }) => {
                result.session_label = session.label.join(result.session_label);
                return Ok(Some(result));
            }
            Recorded::Made(_) | Recorded::Forgotten => return Ok(None),
        }
        let result = answer::never_came(session.label);
        self.writing(batch)?;
        self.ledger.put_call(
            key,
            &StoredCall {
                tool: String::new(),
                arguments_sha256: String::new(),
                audit: 0,
                result: Some(result.clone()),
            },
        )?;
        Ok(Some(result))
    }

    /// Ends the waits of a session that is forgotten.
    pub(in crate::broker) fn withdraw_all(
        &mut self,
        session: &SessionId,
        batch: &mut Batch,
    ) -> Result<(), Fault> {
        for held in self.ledger.open_approvals()? {
            if held.key.session == *session {
                self.withdraw(&held.key, batch)?;
            }
        }
        Ok(())
    }

    /// Ends what nobody answered in time, and what was answered and never asked for again.
    pub(in crate::broker) fn expire(&mut self, batch: &mut Batch) -> Result<(), Problem> {
        let now = (self.now)();
        let open = self.ledger.open_approvals().map_err(Problem::from)?;
        for held in open.iter().filter(|held| held.is_late(now)) {
            self.move_to(held, ApprovalState::Expired, batch)
                .map_err(Problem::from)?;
            self.go_on(&held.key, batch)?;
        }
        self.look_for_late();
        Ok(())
    }

    /// When something has to be ended; none if nothing waits.
    pub(in crate::broker) fn next_late(&self) -> Option<Timestamp> {
        self.approving.next_late
    }

    /// Whether something has to be ended now.
    pub(in crate::broker) fn has_late(&self) -> bool {
        self.halted().is_none() && self.next_late().is_some_and(|late| (self.now)() >= late)
    }

    /// Ends what is late no sooner than after this time.
    pub(in crate::broker) fn put_off_late(&mut self, by: Duration) {
        self.approving.next_late = (self.now)().checked_add(by).ok();
    }

    /// Finds when the next open approval is late.
    pub(in crate::broker) fn look_for_late(&mut self) {
        match self.ledger.next_expiry() {
            Ok(next) => self.approving.next_late = next,
            // It is looked again with the next change; what is known stays.
            Err(error) => tracing::error!(%error, "nobody can tell which approvals are late"),
        }
    }
}

fn not_pending(id: &ApprovalId, state: ApprovalState) -> Problem {
    let code = match state {
        ApprovalState::Expired => Code::ApprovalExpired,
        _ => Code::NotFound,
    };
    let title = format!(
        "Approval {id} does not wait for an answer: it is {}",
        state.name()
    );
    Problem::new(code, title).hint("`boxmaker approvals` lists what waits for you")
}
