//! The beginning of a call: answered from the record, denied, or allowed with its intent on disk.

mod allow;
mod replay;

use super::answer;
use super::approving;
use super::core::{Batch, Core, Fault};
use super::job::{Begun, Note, OwnedRecord, Reply, Ticket};
use super::outgoing::Body;
use crate::approval::Binding;
use crate::audit::{Decided, Synced};
use crate::decision::{Arguments, Decision, Facts, Next, Question, decide};
use crate::ledger::{Key, LedgerError, SessionRow, StoredCall};
use crate::tools::Tool;
use bxcore::audit::{Kind, sha256_hex};
use bxcore::code::Code;
use bxcore::label::Label;
use bxcore::problem::Problem;
use bxcore::wire::approval::Awaiting;
use bxcore::wire::brokerd::{CallRequest, CallResult};
pub(super) use replay::other_call;
use replay::{Replay, too_many};
use serde_json::Value;
use std::sync::Arc;

/// The largest cap on a result that is honoured, in bytes.
const MAX_RESULT_BYTES: usize = 1024 * 1024;

/// A request with what is known of it before the decision.
struct Asked {
    request: CallRequest,
    key: Key,
    arguments_sha256: String,
    session: SessionRow,
    /// What it is judged by: the ledger's label, and loopd's if that is higher.
    label: Label,
    tool: Option<Arc<Tool>>,
}

/// What comes of a request.
enum Came {
    /// An answer, once the batch is on record.
    Ended(CallResult),
    /// The right to run it, once its intent is on disk.
    Run(Box<Ticket>),
    /// The answer of the same call, which runs already.
    Waits(Key),
    /// The owner's answer to a question that was just put, or is put already.
    Awaits {
        key: Key,
        request: Box<CallRequest>,
        awaiting: Awaiting,
        is_new: bool,
    },
}

impl Core {
    /// Begins a call.
    pub(super) fn begin(
        &mut self,
        request: CallRequest,
        reply: Reply<Begun>,
        batch: &mut Batch,
    ) -> Result<(), Problem> {
        match self.look_at(request, batch) {
            Ok(Came::Ended(result)) => batch.give(reply, Ok(Begun::Ended(Box::new(result)))),
            Err(fault) => batch.give(reply, Err(fault)),
            Ok(Came::Waits(key)) => {
                if let Some(running) = self.running.get_mut(&key) {
                    running.waiters.push(reply);
                }
                Ok(())
            }
            Ok(Came::Awaits {
                awaiting,
                is_new: true,
                ..
            }) => {
                let is_new = true;
                batch.give(reply, Ok(Begun::Awaiting { awaiting, is_new }))
            }
            Ok(Came::Awaits { key, request, .. }) => {
                batch.after(move |core, done| match done {
                    Ok(()) => core.park(key, *request, reply),
                    Err(problem) => {
                        let _ = reply.send(Err(problem.clone()));
                    }
                });
                Ok(())
            }
            Ok(Came::Run(ticket)) => {
                batch.after(move |core, done| core.hand_out(ticket, reply, done));
                Ok(())
            }
        }
    }

    fn look_at(&mut self, request: CallRequest, batch: &mut Batch) -> Result<Came, Fault> {
        let session = self.ledger.known_session(&request.session)?;
        let asked = Asked {
            key: Key {
                session: request.session.clone(),
                call: request.call,
            },
            arguments_sha256: sha256_hex(request.arguments.as_bytes()),
            label: session.label.join(request.label),
            tool: self.policy.tools.get(&request.tool).cloned(),
            session,
            request,
        };
        if let Some(running) = self.running.get(&asked.key) {
            let same = running.tool.spec().name == asked.request.tool
                && running.arguments_sha256 == asked.arguments_sha256;
            return match running.waiters.len() {
                _ if !same => Err(Fault::Request(other_call(&asked.key))),
                MAX_WAITERS.. => Err(Fault::Request(too_many(&asked.key))),
                _ => Ok(Came::Waits(asked.key)),
            };
        }
        let recorded = self.ledger.call(&asked.key)?;
        match self.recalled(&asked, recorded) {
            Replay::Run => {
                self.raise_as_claimed(&asked, batch)?;
                self.decide_call(&asked, batch)
            }
            Replay::Answer(result) => Ok(Came::Ended(*result)),
            Replay::Other => Err(Fault::Request(other_call(&asked.key))),
            Replay::Interrupted(audit) => {
                self.raise_as_claimed(&asked, batch)?;
                let result = answer::interrupted(asked.label, audit);
                self.store(&asked, result.clone(), batch)?;
                Ok(Came::Ended(result))
            }
        }
    }

    /// Joins what loopd says that the session has read, where the ledger does not have it.
    fn raise_as_claimed(&mut self, asked: &Asked, batch: &Batch) -> Result<(), Fault> {
        if asked.label != asked.session.label {
            self.writing(batch)?;
            self.ledger.raise(&asked.key.session, asked.label)?;
        }
        Ok(())
    }

    fn decide_call(&mut self, asked: &Asked, batch: &mut Batch) -> Result<Came, Fault> {
        let arguments = match &asked.tool {
            Some(tool) => Arguments::read(&asked.request.arguments, &tool.judged.schema),
            None => Arguments::NotGiven,
        };
        let rules = self.ledger.rules(&asked.session)?;
        let name = &asked.request.tool;
        let body = self.policy.body(name, &arguments);
        let spec = asked.tool.as_ref().map(|tool| tool.spec());
        let reserved = asked.request.reserved;
        let mut facts = self.facts(name, spec, &arguments, body.as_ref(), reserved)?;
        let decide = |core: &Self, facts: &Facts| {
            decide(&Question {
                name,
                tool: spec,
                arguments: &arguments,
                label: asked.label,
                rules: &rules,
                grants: &core.policy.grants,
                facts,
            })
        };
        let mut decision = decide(self, &facts);
        let mut approval = None;
        if let (Next::Ask, Some(tool), Arguments::Valid(arguments)) =
            (decision.next, &asked.tool, &arguments)
        {
            let destination = facts.destination.clone();
            let binding = self.bind(
                asked,
                tool,
                arguments,
                body.as_ref(),
                destination,
                &decision,
            );
            match self.ask_owner(&asked.key, &binding, arguments, batch)? {
                approving::Heard::Waits { awaiting, is_new } => {
                    return Ok(Came::Awaits {
                        key: asked.key.clone(),
                        request: Box::new(asked.request.clone()),
                        awaiting,
                        is_new,
                    });
                }
                approving::Heard::Said(said, by) => {
                    (facts.approval, approval) = (said, by);
                    decision = decide(self, &facts);
                }
            }
        }
        count(&decision);
        match (decision.next, asked.tool.clone(), arguments) {
            (Next::Run, Some(tool), Arguments::Valid(arguments)) => {
                if let Some(approval) = approval {
                    self.use_approval(&approval, batch)?;
                }
                self.allow(asked, tool, arguments, body, decision, batch)
                    .map(|ticket| Came::Run(Box::new(ticket)))
            }
            (Next::Refuse(code), ..) => self.deny(asked, code, body, decision, batch),
            // Arguments are there, and the owner has answered; whoever has not, has not agreed.
            (Next::Ask | Next::Run | Next::Unclear, ..) => {
                self.deny(asked, Code::ApprovalUnroutable, body, decision, batch)
            }
        }
    }

    /// What an approval of a call would be bound to.
    fn bind(
        &self,
        asked: &Asked,
        tool: &Tool,
        arguments: &Value,
        body: Option<&Body>,
        destination: Option<String>,
        decision: &Decision,
    ) -> Binding {
        let touch = tool.touch(arguments, &asked.key.session, asked.label, &self.places);
        Binding {
            tool: asked.request.tool.clone(),
            trusted: self.policy.mcp.trusted_sha256(&asked.request.tool),
            arguments: asked.request.arguments.clone(),
            body: body.map(|Body(text)| text.to_string()),
            reads: touch.reads,
            writes: touch.writes,
            session: asked.key.session.clone(),
            call: asked.key.call,
            label: asked.label,
            destination,
            grant: decision.walk.grant,
            rule: decision.asked_by.unwrap_or_default().to_owned(),
        }
    }

    fn deny(
        &mut self,
        asked: &Asked,
        code: Code,
        body: Option<Body>,
        decision: Decision,
        batch: &mut Batch,
    ) -> Result<Came, Fault> {
        let text = answer::denial(&asked.request.tool, code, &decision.walk);
        let note = decided(asked, Kind::Deny, Some(code), body.as_ref(), decision);
        let audit = self.note(note, batch);
        batch.synced = Synced::Now;
        let result = answer::denied(code, &text, asked.label, audit);
        self.store(asked, result.clone(), batch)?;
        Ok(Came::Ended(result))
    }

    fn store(
        &mut self,
        asked: &Asked,
        result: CallResult,
        batch: &Batch,
    ) -> Result<(), LedgerError> {
        let stored = StoredCall {
            tool: asked.request.tool.as_str().to_owned(),
            arguments_sha256: asked.arguments_sha256.clone(),
            audit: result.audit.unwrap_or_default(),
            result: Some(result),
        };
        self.writing(batch)?;
        self.ledger.put_call(&asked.key, &stored)
    }
}

/// How many may wait for the same call at once.
const MAX_WAITERS: usize = 64;

fn decided(
    asked: &Asked,
    kind: Kind,
    reason: Option<Code>,
    body: Option<&Body>,
    decision: Decision,
) -> Note {
    let decided = if kind == Kind::Intent {
        Decided::Allow
    } else {
        Decided::Deny
    };
    let record = OwnedRecord {
        session: Some(asked.key.session.clone()),
        call: Some(asked.key.call.0),
        tool: Some(asked.request.tool.as_str().to_owned()),
        label: Some(asked.label),
        grant: decision.walk.grant,
        decision: Some(decided),
        reason,
        walk: Some(decision.walk.steps),
        arguments_sha256: body.map(|_| asked.arguments_sha256.clone()),
        body: Some(match body {
            Some(Body(text)) => Arc::clone(text),
            None => asked.request.arguments.as_str().into(),
        }),
        ..OwnedRecord::default()
    };
    Note { kind, record }
}

fn count(decision: &Decision) {
    let reason = decision.walk.denied.map_or("allowed", Code::as_str);
    metrics::counter!("boxmaker_decisions_total", "reason" => reason).increment(1);
}
