//! What the keeper owns, and how it works through a batch of jobs. Synchronous.

use super::approving::Approving;
use super::job::{Begun, Job, Note, Reply};
use super::mcp::Book;
use super::model::{Leading, ModelKey};
use super::register::Listed;
use crate::approval;
use crate::audit::{Log, Synced};
use crate::consult::Consult;
use crate::ledger::{Durability, Key, Ledger, LedgerError, Spot};
use crate::memory::Memory;
use crate::provider::Providers;
use crate::secrets::Secrets;
use crate::tools::{Places, Registry, Tool};
use bxcore::audit::{Checkpoint, Kind};
use bxcore::code::Code;
use bxcore::grant::Grant;
use bxcore::label::Label;
use bxcore::money::MicroUsd;
use bxcore::problem::Problem;
use bxcore::wire::brokerd::{AuditStatus, CallRequest};
use bxkit::fault;
use jiff::Timestamp;
use jiff::civil::Date;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// What decisions are made by.
#[derive(Debug, Clone)]
pub struct Policy {
    /// The owner's grants, in the order of the file.
    pub grants: Vec<Grant>,
    /// The tools that there are.
    pub tools: Registry,
    /// The owner's secrets, which nothing may send.
    pub secrets: Secrets,
    /// Whom `consult` asks, where somebody is configured.
    pub consult: Option<Consult>,
    /// Models elsewhere that may lead sessions.
    pub providers: Providers,
    /// The way to memory, where there is one.
    pub memory: Option<Memory>,
    /// What is known of the tools of MCP servers.
    pub mcp: Book,
    /// Whether and how long the owner is asked.
    pub approvals: approval::Settings,
}

/// A call that runs.
pub(super) struct Running {
    pub(super) tool: Arc<Tool>,
    pub(super) arguments_sha256: String,
    /// The label that it was judged by, which is its arguments' too.
    pub(super) label: Label,
    pub(super) result_bytes: usize,
    pub(super) grant: Option<usize>,
    pub(super) intent: u64,
    /// What was set aside for it, and on which day.
    pub(super) set_aside: Option<(Date, MicroUsd)>,
    /// What its result may tell of.
    pub(super) reads: Vec<Spot>,
    /// What it may change.
    pub(super) writes: Vec<Spot>,
    /// Others that asked for the same call meanwhile.
    pub(super) waiters: Vec<Reply<Begun>>,
}

/// What happens to a job once its batch is on record, or could not be put there.
pub(super) type After = Box<dyn FnOnce(&mut Core, &Result<(), Problem>)>;

/// Ledger, log and the calls under way: one owner, no locks.
pub(super) struct Core {
    pub(super) policy: Policy,
    pub(super) places: Places,
    pub(super) ledger: Ledger,
    pub(super) log: Log,
    pub(super) running: HashMap<Key, Running>,
    /// Model calls to providers that are under way.
    pub(super) leading: HashMap<ModelKey, Leading>,
    /// Calls that ran, whose result could not be stored. The next start finds their intents.
    pub(super) lost: HashSet<Key>,
    /// Calls that wait for the owner.
    pub(super) approving: Approving,
    pub(super) now: fn() -> Timestamp,
    pub(super) listed: Listed,
    /// Why nothing is granted any more.
    halted: Option<Problem>,
}

/// What a batch has gathered so far.
pub(super) struct Batch {
    durability: Durability,
    notes: Vec<Note>,
    pub(super) synced: Synced,
    afters: Vec<After>,
}

impl Core {
    pub(super) fn new(
        policy: Policy,
        places: Places,
        ledger: Ledger,
        log: Log,
        approving: Approving,
        now: fn() -> Timestamp,
    ) -> Self {
        Self {
            policy,
            places,
            ledger,
            log,
            running: HashMap::new(),
            leading: HashMap::new(),
            lost: HashSet::new(),
            approving,
            now,
            listed: Listed::default(),
            halted: None,
        }
    }

    /// Why nothing is granted any more, if so.
    pub(super) fn halted(&self) -> Option<&Problem> {
        self.halted.as_ref()
    }

    /// Works through a batch: ledger first, then the log, then the answers.
    pub(super) fn work(&mut self, jobs: Vec<Job>) {
        let durability = jobs.iter().map(|job| self.durability(job)).max();
        let mut batch = Batch {
            durability: durability.unwrap_or(Durability::Process),
            notes: Vec::new(),
            synced: Synced::Later,
            afters: Vec::new(),
        };
        let mut done = match &self.halted {
            Some(problem) => Err(problem.clone()),
            None => Ok(()),
        };
        for job in jobs {
            self.handle(job, &mut batch, &mut done);
        }
        if done.is_ok() {
            done = self.ledger.commit().map_err(Problem::from);
        }
        if let Err(problem) = &done {
            tracing::error!(code = %problem.code, "{problem}");
            self.ledger.roll_back();
        } else {
            if batch.notes.iter().any(|note| note.kind == Kind::Outcome) {
                fault::point("brokerd.after-label");
            }
            done = self.record(&batch);
        }
        for after in batch.afters {
            after(self, &done);
        }
    }

    /// Handles one job. A failure of the database spoils the batch: what a half-done transaction
    /// holds is nobody's answer.
    fn handle(&mut self, job: Job, batch: &mut Batch, done: &mut Result<(), Problem>) {
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
    fn durability(&self, job: &Job) -> Durability {
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

    /// Begins the batch's transaction, unless it has begun.
    pub(super) fn writing(&mut self, batch: &Batch) -> Result<(), LedgerError> {
        self.ledger.begin(batch.durability)
    }

    /// The number that the batch's next record will have.
    pub(super) fn next_number(&self, batch: &Batch) -> u64 {
        self.log.head().seq + batch.notes.len() as u64 + 1
    }

    /// Adds a record to the batch, and gives the number that it will have.
    pub(super) fn note(&self, note: Note, batch: &mut Batch) -> u64 {
        let number = self.next_number(batch);
        batch.notes.push(note);
        number
    }

    /// Gives back what was set aside for a call that was allowed and never made.
    pub(super) fn give_back(&mut self, intent: u64) {
        let given = self
            .ledger
            .begin(Durability::Disk)
            .and_then(|()| self.ledger.charge(intent, MicroUsd::ZERO))
            .and_then(|()| self.ledger.commit());
        if let Err(error) = given {
            // It stays charged, which errs on the side of the limit.
            self.ledger.roll_back();
            tracing::error!(%error, "what a call did not cost can't be given back");
        }
    }

    /// Writes the batch's records, and syncs if one of them asks for it.
    fn record(&mut self, batch: &Batch) -> Result<(), Problem> {
        let has = |kind| batch.notes.iter().any(|note| note.kind == kind);
        if has(Kind::Intent) {
            fault::point("brokerd.before-intent");
        }
        let written = self.write(batch);
        if let Err(error) = written {
            let problem = error.problem();
            self.halted = Some(problem.clone());
            return Err(problem);
        }
        if has(Kind::Intent) {
            fault::point("brokerd.after-intent");
        }
        if has(Kind::Outcome) {
            fault::point("brokerd.after-outcome");
        }
        if self.log.is_checkpoint_due((self.now)()) {
            self.checkpoint()?;
        }
        Ok(())
    }

    /// Signs the log as it is. Whatever keeps that from the log ends all granting.
    ///
    /// The ledger only remembers it as well: where it can't, what it remembers is an older one.
    pub(super) fn checkpoint(&mut self) -> Result<Checkpoint, Problem> {
        if let Some(problem) = &self.halted {
            return Err(problem.clone());
        }
        let signed = self.log.checkpoint((self.now)()).map_err(|error| {
            let problem = error.problem();
            self.halted = Some(problem.clone());
            problem
        })?;
        let kept = self
            .ledger
            .begin(Durability::Disk)
            .and_then(|()| self.ledger.keep_signed(&signed))
            .and_then(|()| self.ledger.commit());
        if let Err(error) = kept {
            self.ledger.roll_back();
            tracing::error!(%error, "the ledger can't keep a checkpoint, and has the one before");
        }
        Ok(signed)
    }

    /// Brings everything to disk at the end, and signs it.
    pub(super) fn close(&mut self) {
        self.sync();
        if self.halted.is_none()
            && self.log.is_past_checkpoint()
            && let Err(problem) = self.checkpoint()
        {
            tracing::error!(code = %problem.code, "{problem}");
        }
    }

    fn write(&mut self, batch: &Batch) -> Result<(), crate::audit::AuditError> {
        for note in &batch.notes {
            self.log
                .stage(note.kind, &note.record.borrowed(), (self.now)())?;
        }
        if batch.notes.is_empty() {
            Ok(())
        } else {
            self.log.flush(batch.synced)
        }
    }

    /// Whether something is written that is not on disk for sure, and still can be brought there.
    pub(super) fn needs_sync(&self) -> bool {
        self.halted.is_none() && self.log.needs_sync()
    }

    /// Brings what was written without a sync to disk.
    pub(super) fn sync(&mut self) {
        if !self.needs_sync() {
            return;
        }
        if let Err(error) = self.log.flush(Synced::Now) {
            self.halted = Some(error.problem());
        }
    }

    /// Gives up a call whose end can't be put on record, and tells everyone who waits for it.
    pub(super) fn lose(&mut self, key: &Key, problem: &Problem) {
        let Some(running) = self.running.remove(key) else {
            return;
        };
        for waiter in running.waiters {
            let _ = waiter.send(Err(problem.clone()));
        }
        self.lost.insert(key.clone());
    }
}

impl Batch {
    /// Answers with this value once the batch is on record, or at once with what is wrong with the
    /// request. A fault of the database is told and given back: it spoils the batch.
    pub(super) fn give<T: 'static>(
        &mut self,
        reply: Reply<T>,
        found: Result<T, Fault>,
    ) -> Result<(), Problem> {
        match found {
            Ok(value) => self.after(|_, done| {
                let _ = reply.send(done.clone().map(|()| value));
            }),
            Err(Fault::Request(problem)) => {
                let _ = reply.send(Err(problem));
            }
            Err(Fault::Ledger(problem)) => {
                let _ = reply.send(Err(problem.clone()));
                return Err(problem);
            }
        }
        Ok(())
    }

    /// Does this once the batch is on record, or could not be put there.
    pub(super) fn after(&mut self, after: impl FnOnce(&mut Core, &Result<(), Problem>) + 'static) {
        self.afters.push(Box::new(after));
    }
}

/// Why a job was not done.
pub(super) enum Fault {
    /// Its request is at fault, and the rest of the batch is not concerned.
    Request(Problem),
    /// The database is.
    Ledger(Problem),
}

impl From<LedgerError> for Fault {
    fn from(error: LedgerError) -> Self {
        match error.code() {
            Code::StateBroken | Code::DiskFull => Self::Ledger(error.problem()),
            _ => Self::Request(error.problem()),
        }
    }
}
