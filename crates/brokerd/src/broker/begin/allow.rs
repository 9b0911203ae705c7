//! A call that may run: its files labelled, its money set aside, its intent noted, its right handed out.

use super::{Asked, MAX_RESULT_BYTES, decided};
use crate::audit::Synced;
use crate::broker::core::{Batch, Core, Fault, Running};
use crate::broker::job::{Begun, Reply, Ticket};
use crate::broker::outgoing::{Body, errand};
use crate::decision::Decision;
use crate::ledger::{Key, LedgerError};
use crate::tools::Tool;
use bxcore::audit::Kind;
use bxcore::code::Code;
use bxcore::money::MicroUsd;
use bxcore::problem::Problem;
use jiff::civil::Date;
use serde_json::Value;
use std::sync::Arc;

impl Core {
    pub(super) fn allow(
        &mut self,
        asked: &Asked,
        tool: Arc<Tool>,
        arguments: Value,
        body: Option<Body>,
        decision: Decision,
        batch: &mut Batch,
    ) -> Result<Ticket, Fault> {
        let grant = decision.walk.grant;
        let session = &asked.key.session;
        let touch = tool.touch(&arguments, session, asked.label, &self.places);
        self.mark_written(&tool, grant, asked.label, &touch, batch)?;
        let set_aside = self.set_aside(&tool, batch)?;
        let note = decided(asked, Kind::Intent, None, body.as_ref(), decision);
        let intent = self.note(note, batch);
        batch.synced = Synced::Now;
        let result_bytes = usize::try_from(asked.request.result_bytes).unwrap_or(usize::MAX);
        let result_bytes = result_bytes.min(MAX_RESULT_BYTES);
        let running = Running {
            tool: Arc::clone(&tool),
            arguments_sha256: asked.arguments_sha256.clone(),
            label: asked.label,
            result_bytes,
            grant,
            intent,
            set_aside,
            reads: touch.reads,
            writes: touch.writes,
            waiters: Vec::new(),
        };
        self.running.insert(asked.key.clone(), running);
        let served = self
            .policy
            .mcp
            .served(&asked.request, &arguments, body.as_ref());
        let errand = served.or_else(|| {
            errand(
                &asked.request.tool,
                &asked.key,
                asked.label,
                &arguments,
                body,
                grant,
            )
        });
        Ok(Ticket {
            key: asked.key.clone(),
            tool,
            arguments,
            label: asked.label,
            result_bytes,
            errand,
        })
    }

    /// Counts what a call may cost as spent, before it is made.
    fn set_aside(
        &mut self,
        tool: &Tool,
        batch: &Batch,
    ) -> Result<Option<(Date, MicroUsd)>, LedgerError> {
        let Some(reserve) = tool.spec().reserve else {
            return Ok(None);
        };
        let today = self.today();
        let intent = self.next_number(batch);
        self.writing(batch)?;
        self.ledger
            .set_aside(intent, tool.spec().name.as_str(), today, reserve)?;
        Ok(Some((today, reserve)))
    }

    /// Hands out the right to run a call, unless its intent could not be put on record.
    pub(super) fn hand_out(
        &mut self,
        ticket: Box<Ticket>,
        reply: Reply<Begun>,
        done: &Result<(), Problem>,
    ) {
        let key = ticket.key.clone();
        let unused = match done {
            Ok(()) => {
                let intent = self.running.get(&key).map(|running| running.intent);
                let unused = reply.send(Ok(Begun::Run(ticket))).is_err().then(given_up);
                if let (Some(intent), Some(_)) = (intent, &unused) {
                    self.give_back(intent);
                }
                unused
            }
            Err(problem) => {
                let _ = reply.send(Err(problem.clone()));
                Some(problem.clone())
            }
        };
        if let Some(problem) = unused {
            self.abandon(&key, &problem);
        }
    }

    /// Takes back the right to run a call that was never used: nothing happened.
    fn abandon(&mut self, key: &Key, problem: &Problem) {
        let waiters = self.running.remove(key).map(|running| running.waiters);
        for waiter in waiters.into_iter().flatten() {
            let _ = waiter.send(Err(problem.clone()));
        }
    }
}

fn given_up() -> Problem {
    Problem::new(Code::Internal, "The call was given up before it ran")
}
