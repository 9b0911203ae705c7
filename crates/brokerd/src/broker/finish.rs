//! The end of a call: label joined and stored first, then the outcome, then the answer.

use super::answer;
use super::core::{Batch, Core, Running};
use super::job::{Begun, Note, OwnedRecord, Reply};
use crate::audit::{Ended, Raw};
use crate::ledger::{Key, LedgerError, StoredCall};
use crate::tools::Output;
use bxcore::audit::{Kind, sha256_hex};
use bxcore::code::Code;
use bxcore::label::Label;
use bxcore::problem::Problem;
use bxcore::text::present;
use bxcore::transcript::CallOutcome;
use bxcore::usage::Charge;
use bxcore::wire::brokerd::CallResult;

impl Core {
    /// Ends a call that ran.
    pub(super) fn finish(
        &mut self,
        key: Key,
        output: &Output,
        reply: Reply<CallResult>,
        batch: &mut Batch,
    ) -> Result<(), Problem> {
        let Some(running) = self.running.get(&key) else {
            let title = format!("{key} ended without having begun");
            let _ = reply.send(Err(Problem::new(Code::Internal, title)));
            return Ok(());
        };
        let label = self.result_label(running, output);
        let presented = present(&output.text, running.result_bytes);
        let raw = Raw {
            bytes: presented.raw_bytes as u64,
            sha256: sha256_hex(output.text.as_bytes()),
        };
        let mut result = answer::ended(output.failure, presented, label, running.intent);
        // Where nobody says what it cost, it cost all that was set aside.
        result.charge = running
            .set_aside
            .map(|(_, reserved)| output.charge.unwrap_or_else(|| Charge::whole(reserved)));
        let stored = StoredCall {
            tool: running.tool.spec().name.as_str().to_owned(),
            arguments_sha256: running.arguments_sha256.clone(),
            audit: running.intent,
            result: None,
        };
        if let Err(error) = self.store_end(&key, label, &mut result, stored, batch) {
            let problem = error.problem();
            self.lose(&key, &problem);
            let _ = reply.send(Err(problem.clone()));
            return Err(problem);
        }
        self.note(outcome(&key, &result, raw), batch);
        batch.after(move |core, done| {
            if let Err(problem) = done {
                core.lose(&key, problem);
                let _ = reply.send(Err(problem.clone()));
                return;
            }
            let waiters = core.running.remove(&key).map(|running| running.waiters);
            for waiter in waiters.into_iter().flatten() {
                // Whoever asked for the same call later began nothing, and owes nothing.
                let again = CallResult {
                    replayed: true,
                    ..result.clone()
                };
                let _ = waiter.send(Ok(Begun::Ended(Box::new(again))));
            }
            let _ = reply.send(Ok(result));
        });
        Ok(())
    }

    fn store_end(
        &mut self,
        key: &Key,
        label: Label,
        result: &mut CallResult,
        stored: StoredCall,
        batch: &Batch,
    ) -> Result<(), LedgerError> {
        self.writing(batch)?;
        if let Some(charge) = result.charge {
            self.ledger.charge(stored.audit, charge.usd)?;
        }
        result.session_label = self.ledger.raise(&key.session, label)?;
        let stored = StoredCall {
            result: Some(result.clone()),
            ..stored
        };
        self.ledger.put_call(key, &stored)
    }

    /// The label of a result: what the tool read, what its arguments were made from, and what the
    /// grant says of everything that comes back through it.
    pub(super) fn result_label(&self, running: &Running, output: &Output) -> Label {
        let label = running.label.join(output.label);
        let label = label.join(self.read_label(&running.reads, output.through_link));
        self.granted_label(&running.tool, running.grant, label)
    }
}

fn outcome(key: &Key, result: &CallResult, raw: Raw) -> Note {
    let ended = if result.outcome == CallOutcome::Ok {
        Ended::Ok
    } else {
        Ended::Failed
    };
    let record = OwnedRecord {
        intent: result.audit,
        outcome: Some(ended),
        session: Some(key.session.clone()),
        call: Some(key.call.0),
        label: Some(result.label),
        reason: result.code,
        body: Some(result.content.as_str().into()),
        raw: Some(raw),
        charge: result.charge,
        ..OwnedRecord::default()
    };
    Note {
        kind: Kind::Outcome,
        record,
    }
}
