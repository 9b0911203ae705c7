//! The end of a model call: label and cost stored first, then the outcome, then the answer's end.

use super::{Leading, ModelEnd, ModelKey};
use crate::audit::Ended;
use crate::broker::core::{Batch, Core};
use crate::broker::job::{Note, OwnedRecord, Reply};
use crate::ledger::LedgerError;
use bxcore::audit::Kind;
use bxcore::code::Code;
use bxcore::label::Label;
use bxcore::problem::Problem;
use bxcore::text::present;

/// How much of an answer goes on record, in bytes. Its hash there is of all of it.
const MAX_RECORDED_BYTES: usize = 48 * 1024;

impl Core {
    /// Ends a model call: label and cost first, then the outcome, then the answer's end. Gives the
    /// session's label.
    pub(in crate::broker) fn end_model(
        &mut self,
        key: ModelKey,
        end: &ModelEnd,
        reply: Reply<Label>,
        batch: &mut Batch,
    ) -> Result<(), Problem> {
        let Some(leading) = self.leading.remove(&key) else {
            let title = "A model call ended without having begun";
            let _ = reply.send(Err(Problem::new(Code::Internal, title)));
            return Ok(());
        };
        let label = match self.store_model_end(&key, &leading, end, batch) {
            Ok(label) => label,
            Err(error) => return batch.give(reply, Err(error.into())),
        };
        let presented = present(&end.text, MAX_RECORDED_BYTES);
        let record = OwnedRecord {
            intent: Some(leading.intent),
            outcome: Some(match end.failure {
                None => Ended::Ok,
                Some(_) => Ended::Failed,
            }),
            session: Some(key.session),
            model_call: Some(key.call.0),
            tool: Some(leading.tool.as_str().to_owned()),
            label: Some(leading.answer),
            reason: end.failure,
            body: Some(presented.text.into()),
            raw: Some(end.raw.clone()),
            charge: Some(end.charge),
            ..OwnedRecord::default()
        };
        let kind = Kind::Outcome;
        self.note(Note { kind, record }, batch);
        batch.give(reply, Ok(label))
    }

    fn store_model_end(
        &mut self,
        key: &ModelKey,
        leading: &Leading,
        end: &ModelEnd,
        batch: &Batch,
    ) -> Result<Label, LedgerError> {
        self.writing(batch)?;
        self.ledger.charge(leading.intent, end.charge.usd)?;
        let label = leading.label.join(leading.answer);
        self.ledger.raise(&key.session, label)
    }
}
