//! Who does which job, and how far its writes must have come before it is answered.

use super::core::{Batch, Core, Fault};
use super::job::{Job, Reply};
use crate::audit::Synced;
use crate::ledger::Durability;
use bxcore::label::Label;
use bxcore::problem::Problem;
use bxcore::wire::brokerd::{AuditStatus, CallRequest};

impl Core {
    /// Handles one job. A failure of the database spoils the batch: what a half-done transaction
    /// holds is nobody's answer.
    pub(super) fn handle(&mut self, job: Job, batch: &mut Batch, done: &mut Result<(), Problem>) {
        if let Err(problem) = done {
            return self.refuse(job, problem);
        }
        let handled = match job {
            Job::Register {
                id,
                register,
                reply,
            } => {
                let found = self.register(id, &register, batch);
                batch.give(reply, found)
            }
            Job::Authority { id, reply } => {
                let found = self.authority(&id);
                batch.give(reply, found)
            }
            Job::Forget { id, reply } => {
                let done = self.forget(id, batch);
                batch.give(reply, done)
            }
            Job::Tools { id, reply } => {
                let found = self.tools(&id);
                batch.give(reply, found)
            }
            Job::Explain { request, reply } => {
                let walk = self.explain(&request);
                batch.give(reply, walk)
            }
            Job::Begin { request, reply } => self.begin(request, reply, batch),
            Job::Unpark { key } => match self.unpark(&key) {
                Err(Fault::Ledger(problem)) => Err(problem),
                Ok(()) | Err(Fault::Request(_)) => Ok(()),
            },
            Job::Withdraw { key, reply } => {
                let found = self.withdraw(&key, batch);
                batch.give(reply, found)
            }
            Job::Approvals { reply } => {
                let found = self.pending_approvals();
                batch.give(reply, found)
            }
            Job::Approval { id, reply } => {
                let found = self.approval(&id);
                batch.give(reply, found)
            }
            Job::Answer { id, answer, reply } => self.answer_approval(&id, &answer, reply, batch),
            Job::Expire => self.expire(batch),
            Job::Finish { key, output, reply } => self.finish(key, &output, reply, batch),
            Job::BeginModel { request, reply } => self.begin_model(*request, reply, batch),
            Job::EndModel { key, end, reply } => self.end_model(key, &end, reply, batch),
            Job::Mcp(job) => self.mcp(job, batch),
            Job::Providers { reply } => {
                let found = self.providers();
                batch.give(reply, found)
            }
            Job::Note { note, reply } => {
                let seq = self.note(*note, batch);
                batch.synced = Synced::Now;
                batch.give(reply, Ok(seq))
            }
            Job::Endorse {
                endorse,
                spot,
                reply,
            } => self.endorse(endorse, spot, reply, batch),
            Job::Checkpoint { reply } => {
                batch.after(move |core, done| {
                    let signed = done.clone().and_then(|()| core.checkpoint());
                    let _ = reply.send(signed);
                });
                Ok(())
            }
            Job::Status { reply } => {
                batch.after(|core, done| {
                    let head = core.log.head();
                    let status = AuditStatus {
                        seq: head.seq,
                        head: head.hex(),
                    };
                    let _ = reply.send(done.clone().map(|()| status));
                });
                Ok(())
            }
        };
        if let Err(problem) = handled {
            *done = Err(problem);
        }
    }

    /// Answers a job of a batch that is spoiled.
    fn refuse(&mut self, job: Job, problem: &Problem) {
        fn tell<T>(reply: Reply<T>, problem: &Problem) {
            // Whoever asked may be gone.
            let _ = reply.send(Err(problem.clone()));
        }
        match job {
            Job::Register { reply, .. } | Job::Authority { reply, .. } => tell(reply, problem),
            Job::Forget { reply, .. } => tell(reply, problem),
            Job::Endorse { reply, .. } => tell(reply, problem),
            Job::Tools { reply, .. } => tell(reply, problem),
            Job::Explain { reply, .. } => tell(reply, problem),
            Job::Begin { reply, .. } => tell(reply, problem),
            Job::Unpark { key } => self.refuse_parked(&key, problem),
            Job::Expire => {}
            Job::Withdraw { reply, .. } => tell(reply, problem),
            Job::Approvals { reply } => tell(reply, problem),
            Job::Approval { reply, .. } | Job::Answer { reply, .. } => tell(reply, problem),
            Job::BeginModel { reply, .. } => tell(reply, problem),
            Job::EndModel { key, reply, .. } => {
                self.leading.remove(&key);
                tell(reply, problem);
            }
            Job::Mcp(job) => job.refuse(problem),
            Job::Providers { reply } => tell(reply, problem),
            Job::Note { reply, .. } => tell(reply, problem),
            Job::Status { reply } => tell(reply, problem),
            Job::Checkpoint { reply } => tell(reply, problem),
            Job::Finish { key, reply, .. } => {
                self.lose(&key, problem);
                tell(reply, problem);
            }
        }
    }

    /// How far this job's writes must have come before it is answered.
    pub(super) fn durability(&self, job: &Job) -> Durability {
        let rises = |id, label: Label| match self.ledger.session(id) {
            Ok(Some(held)) => !label.is_within(held.label),
            Ok(None) | Err(_) => true,
        };
        let must_be_on_disk = match job {
            // What a model call may cost is on disk before it is made, and so is its label after.
            Job::BeginModel { .. }
            | Job::EndModel { .. }
            | Job::Forget { .. }
            | Job::Answer { .. }
            | Job::Withdraw { .. }
            | Job::Mcp(_)
            | Job::Expire => true,
            Job::Register { id, register, .. } => !self.is_registered(id, register),
            Job::Begin { request, .. } => {
                // The label of what is written is on disk before it is written. So is what a call
                // may cost before it is made, and that the owner is asked or was.
                let tool = self.policy.tools.get(&request.tool);
                tool.is_some_and(|tool| !tool.spec().tags.is_empty())
                    || self.may_ask(request)
                    || rises(&request.session, request.label)
            }
            Job::Finish { key, output, .. } => {
                let running = self.running.get(key);
                let repeats = running.map(|running| running.tool.spec().repeat);
                let label =
                    running.map_or(output.label, |running| self.result_label(running, output));
                repeats != Some(bxcore::tool::Repeat::Safe) || rises(&key.session, label)
            }
            Job::Authority { .. }
            | Job::Tools { .. }
            | Job::Explain { .. }
            | Job::Note { .. }
            | Job::Providers { .. }
            | Job::Approvals { .. }
            | Job::Approval { .. }
            | Job::Unpark { .. }
            | Job::Endorse { .. }
            | Job::Checkpoint { .. }
            | Job::Status { .. } => false,
        };
        if must_be_on_disk {
            Durability::Disk
        } else {
            Durability::Process
        }
    }

    /// Whether the rules of a call's session have the owner asked. One that can't be read may.
    fn may_ask(&self, request: &CallRequest) -> bool {
        let tags = self
            .policy
            .tools
            .get(&request.tool)
            .map(|tool| &tool.spec().tags);
        let rules = self
            .ledger
            .known_session(&request.session)
            .and_then(|row| self.ledger.rules(&row));
        tags.is_some_and(|tags| {
            rules.map_or(true, |rules| rules.needs_approval(&request.tool, tags))
        })
    }
}
