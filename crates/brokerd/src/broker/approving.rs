//! Asking the owner: a call that needs approval waits here, and is decided anew, from its first
//! rule on, when there is an answer.
//!
//! An approval is used in the transaction in which the call's money is set aside and its files are
//! labelled, and so before the intent: one that is used and has no intent never ran, and the owner
//! is asked again.

mod answering;
mod telling;

use super::begin::other_call;
use super::core::{Batch, Core, Fault};
use super::job::{Begun, OwnedRecord, Reply};
use crate::approval::{Binding, MAX_PENDING, render};
use crate::decision::{Approval, Unroutable};
use crate::ledger::{Key, StoredApproval};
use bxcore::code::Code;
use bxcore::id::ApprovalId;
use bxcore::problem::Problem;
use bxcore::text::hex;
use bxcore::wire::approval::{ApprovalState, Awaiting};
use bxcore::wire::brokerd::CallRequest;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::HashMap;
use tokio::sync::watch;

/// How many requests may wait for the same call.
const MAX_PARKED: usize = 64;
/// How many random bytes are in an approval's id.
const ID_BYTES: usize = 6;

/// What is known of approvals beside the ledger.
#[derive(Debug)]
pub(super) struct Approving {
    /// Requests that wait for the owner, by call.
    parked: HashMap<Key, Vec<Parked>>,
    /// Counts the changes of the list.
    version: watch::Sender<u64>,
    /// When the next open approval is late.
    next_late: Option<Timestamp>,
}

#[derive(Debug)]
struct Parked {
    request: CallRequest,
    reply: Reply<Begun>,
}

/// What the owner says of a call.
pub(super) enum Heard {
    /// This, by this approval where it is a yes.
    Said(Approval, Option<ApprovalId>),
    /// Nothing yet. A new question is told at once, another is waited for.
    Waits { awaiting: Awaiting, is_new: bool },
}

impl Approving {
    /// Nothing waits yet; whoever has the other end hears of changes.
    pub(super) fn new(version: watch::Sender<u64>) -> Self {
        Self {
            parked: HashMap::new(),
            version,
            next_late: None,
        }
    }
}

impl Core {
    /// What the owner says of a call that needs approval. Asks, where that was not done for exactly
    /// what would run.
    pub(super) fn ask_owner(
        &mut self,
        key: &Key,
        binding: &Binding,
        arguments: &Value,
        batch: &mut Batch,
    ) -> Result<Heard, Fault> {
        let now = (self.now)();
        let Some(held) = self.ledger.approval_of(key)? else {
            return self.ask_anew(key, binding, arguments, batch);
        };
        if held.is_open() && held.is_late(now) {
            self.move_to(&held, ApprovalState::Expired, batch)?;
            return Ok(Heard::Said(Approval::Expired, None));
        }
        if held.is_open() && !binding.is_same_call(&held) {
            return Err(Fault::Request(other_call(key)));
        }
        let is_same = held.binding == binding.to_text();
        match held.state {
            ApprovalState::Denied if is_same => Ok(Heard::Said(Approval::Denied, None)),
            ApprovalState::Expired if is_same => Ok(Heard::Said(Approval::Expired, None)),
            ApprovalState::Approved if is_same => Ok(Heard::Said(Approval::Given, Some(held.id))),
            ApprovalState::Pending if is_same => Ok(Heard::Waits {
                awaiting: awaiting(&held),
                is_new: false,
            }),
            ApprovalState::Pending | ApprovalState::Approved => {
                self.move_to(&held, ApprovalState::Outdated, batch)?;
                self.ask_anew(key, binding, arguments, batch)
            }
            _ => self.ask_anew(key, binding, arguments, batch),
        }
    }

    fn ask_anew(
        &mut self,
        key: &Key,
        binding: &Binding,
        arguments: &Value,
        batch: &mut Batch,
    ) -> Result<Heard, Fault> {
        let unroutable = |why| Ok(Heard::Said(Approval::Unroutable(why), None));
        if self.ledger.count_open_approvals()? >= MAX_PENDING {
            return unroutable(Unroutable::TooMany);
        }
        let Some(shown) = render(binding, arguments) else {
            return unroutable(Unroutable::TooLong);
        };
        let asked = (self.now)();
        let expires = asked.saturating_add(self.policy.approvals.expires_in());
        let held = StoredApproval {
            id: self.new_id()?,
            key: key.clone(),
            tool: binding.tool.clone(),
            label: binding.label,
            binding: binding.to_text(),
            shown,
            state: ApprovalState::Pending,
            asked,
            expires: expires.unwrap_or(asked),
        };
        self.writing(batch)?;
        self.ledger.put_approval(&held)?;
        self.note_approval(&held, json!({ "binding": binding }), batch);
        Ok(Heard::Waits {
            awaiting: awaiting(&held),
            is_new: true,
        })
    }

    /// An id that no approval has.
    fn new_id(&self) -> Result<ApprovalId, Fault> {
        let failed = |error: &dyn std::fmt::Display| {
            let title = "The system has no random bytes to give";
            Fault::Request(Problem::new(Code::Internal, title).detail(error.to_string()))
        };
        loop {
            let mut bytes = [0; ID_BYTES];
            getrandom::fill(&mut bytes).map_err(|error| failed(&error))?;
            let id = ApprovalId::new(hex(&bytes)).map_err(|error| failed(&error))?;
            if self.ledger.approval(&id)?.is_none() {
                return Ok(id);
            }
        }
    }

    /// Keeps a request until the owner has answered. The question that it waits for is on disk;
    /// where it was answered in the same moment, whoever asked is told to ask again.
    pub(super) fn park(&mut self, key: Key, request: CallRequest, reply: Reply<Begun>) {
        match self.ledger.approval_of(&key) {
            Ok(Some(held)) if held.state != ApprovalState::Pending => {
                let (awaiting, is_new) = (awaiting(&held), false);
                let _ = reply.send(Ok(Begun::Awaiting { awaiting, is_new }));
                return;
            }
            Ok(_) => {}
            Err(error) => {
                let _ = reply.send(Err(error.problem()));
                return;
            }
        }
        let parked = self.approving.parked.entry(key).or_default();
        if parked.len() >= MAX_PARKED {
            let title = format!("{MAX_PARKED} requests wait for this call already");
            // Whoever asked may be gone.
            let _ = reply.send(Err(Problem::new(Code::BadRequest, title)));
            return;
        }
        parked.push(Parked { request, reply });
    }

    /// Tells those who wait for a call that it waits still.
    pub(super) fn unpark(&mut self, key: &Key) -> Result<(), Fault> {
        let held = self.ledger.approval_of(key)?;
        for waiting in self.approving.parked.remove(key).unwrap_or_default() {
            let answer = match &held {
                Some(held) => Ok(Begun::Awaiting {
                    awaiting: awaiting(held),
                    is_new: false,
                }),
                None => Err(not_waiting(key)),
            };
            let _ = waiting.reply.send(answer);
        }
        Ok(())
    }

    /// Tells those who wait for a call why nothing can be told of it.
    pub(super) fn refuse_parked(&mut self, key: &Key, problem: &Problem) {
        for waiting in self.approving.parked.remove(key).unwrap_or_default() {
            let _ = waiting.reply.send(Err(problem.clone()));
        }
    }

    /// Uses an approval for the call that begins in this transaction.
    pub(super) fn use_approval(&mut self, id: &ApprovalId, batch: &mut Batch) -> Result<(), Fault> {
        self.writing(batch)?;
        let (from, to) = (ApprovalState::Approved, ApprovalState::Used);
        if !self.ledger.move_approval(id, from, to)? {
            let title = format!("Approval {id} is used already");
            return Err(Fault::Request(Problem::new(Code::Internal, title)));
        }
        telling::approvals_changed(batch);
        Ok(())
    }
}

fn awaiting(held: &StoredApproval) -> Awaiting {
    Awaiting {
        approval: held.id.clone(),
        expires: held.expires.to_string(),
    }
}

fn not_waiting(key: &Key) -> Problem {
    Problem::new(Code::Internal, format!("{key} waits for no approval"))
}

fn record_of(held: &StoredApproval) -> OwnedRecord {
    OwnedRecord {
        session: Some(held.key.session.clone()),
        call: Some(held.key.call.0),
        tool: Some(held.tool.as_str().to_owned()),
        label: Some(held.label),
        ..OwnedRecord::default()
    }
}
