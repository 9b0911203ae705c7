//! The thread that owns the database and the transcript files.
//!
//! It takes every batch that waits, makes them durable with one sync, answers, and only then writes
//! the transcript files. What it decides is in `plan`; what it remembers is in `state`.

use super::batch::{Batch, Committed};
use super::command::{Command, Job};
use super::error::StoreError;
use super::files::Files;
use super::housekeeper::{Housekeeper, Nudge};
use super::lock::Lock;
use super::options::StoreOptions;
use super::plan::{Plan, plan};
use super::reconcile::{MAX_TRANSCRIPT_BYTES, Trust};
use super::rows;
use super::state::{Changes, Layer, Row, State, View};
use super::views::Repair;
use bxcore::id::SessionId;
use bxkit::fault;
use rusqlite::{Connection, TransactionBehavior};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::SyncSender;
use tokio::sync::{mpsc, oneshot};

/// How many batches share a commit at most.
const MAX_GROUP_BATCHES: usize = 256;
/// After this many journal bytes the housekeeper is called early.
const HURRY_BYTES: usize = 8 * 1024 * 1024;

/// What the writer thread owns.
pub(super) struct Writer {
    pub(super) options: StoreOptions,
    pub(super) db: Connection,
    pub(super) state: State,
    pub(super) files: Files,
    /// Sessions whose file may lack committed lines.
    pub(super) behind: BTreeMap<SessionId, Trust>,
    /// Sessions whose file has lines that are not synced, and whether the file is new.
    pub(super) dirty: BTreeMap<SessionId, bool>,
    /// What was put right and not told yet.
    pub(super) repairs: Vec<Repair>,
    /// The number of the last journal row.
    pub(super) last_seq: i64,
    /// The number of the last session's row.
    pub(super) last_row: i64,
    nudge: Option<SyncSender<Nudge>>,
    /// What the housekeeper was told since its last round.
    pub(super) told: Option<Nudge>,
    /// How much went into the journal since then, in bytes.
    pub(super) journal_bytes: usize,
    lock: Lock,
}

/// A batch that is planned and waits for the commit.
struct Ready {
    job: Job,
    plan: Plan,
}

impl Writer {
    pub(super) fn new(
        options: StoreOptions,
        db: Connection,
        lock: Lock,
    ) -> Result<Self, StoreError> {
        let failed = |error| StoreError::database(&options.db, &error);
        let last_seq = rows::last_seq(&db).map_err(failed)?;
        let last_row = rows::last_session_row(&db).map_err(failed)?;
        Ok(Self {
            files: Files::new(options.sessions_dir.clone()),
            state: State::default(),
            behind: BTreeMap::new(),
            dirty: BTreeMap::new(),
            repairs: Vec::new(),
            last_seq,
            last_row,
            nudge: None,
            told: None,
            journal_bytes: 0,
            options,
            db,
            lock,
        })
    }

    /// Serves until the last handle is gone or one asks to close.
    pub(super) fn run(mut self, mut inbox: mpsc::Receiver<Command>, housekeeper: Housekeeper) {
        self.nudge = Some(housekeeper.nudge());
        if !self.dirty.is_empty() || !self.behind.is_empty() {
            self.call_housekeeper(Nudge::Dirty);
        }
        let told = self.serve(&mut inbox);
        // The housekeeper may be waiting for us: without inbox and nudge it comes to its end.
        drop(inbox);
        self.nudge = None;
        housekeeper.join();
        self.finish();
        let Self { db, lock, .. } = self;
        drop(db);
        drop(lock);
        if let Some(told) = told {
            // Whoever asked may have stopped waiting.
            let _ = told.send(());
        }
    }

    fn serve(&mut self, inbox: &mut mpsc::Receiver<Command>) -> Option<oneshot::Sender<()>> {
        while let Some(command) = inbox.blocking_recv() {
            let mut jobs = Vec::new();
            let mut other = sort(command, &mut jobs);
            while other.is_none() && jobs.len() < MAX_GROUP_BATCHES {
                match inbox.try_recv() {
                    Ok(command) => other = sort(command, &mut jobs),
                    Err(_) => break,
                }
            }
            if !jobs.is_empty() {
                self.commit_all(jobs);
            }
            match other {
                Some(Command::Close(told)) => return Some(told),
                Some(other) => self.answer(other),
                None => {}
            }
        }
        None
    }

    fn answer(&mut self, command: Command) {
        // A caller that no longer waits loses nothing, so a failed send is not looked at.
        match command {
            Command::Log(session, reply) => {
                let _ = reply.send(self.log(&session));
            }
            Command::Counters(session, reply) => {
                let _ = reply.send(self.counters(&session));
            }
            Command::Account(key, reply) => {
                let _ = reply.send(self.account_view(&key));
            }
            Command::Recheck(session, reply) => {
                let _ = reply.send(self.recheck(&session));
            }
            Command::Delete(session, reply) => {
                let _ = reply.send(self.delete(&session));
            }
            Command::PutStamp(session, stamp, reply) => {
                let put = rows::put_stamp(&self.db, &session, &stamp);
                let _ =
                    reply.send(put.map_err(|error| StoreError::database(&self.options.db, &error)));
            }
            Command::BeginSync(reply) => {
                let _ = reply.send(self.begin_sync());
            }
            Command::EndSync(result) => self.end_sync(result),
            Command::Prune { up_to, more } => {
                let _ = more.send(self.prune(up_to));
            }
            // Both are taken out before; see `serve`.
            Command::Commit(_) | Command::Close(_) => {}
        }
    }

    fn commit_all(&mut self, jobs: Vec<Job>) {
        let together = jobs.len();
        let batches = u32::try_from(together).unwrap_or(u32::MAX);
        metrics::histogram!("loopd_store_group_batches").record(batches);
        for (job, error) in self.commit_group(jobs) {
            if together == 1 {
                let _ = job.reply.send(Err(error));
                continue;
            }
            // One batch may have spoiled it for all, or the disk is full but for a small one.
            for (job, error) in self.commit_group(vec![job]) {
                let _ = job.reply.send(Err(error));
            }
        }
    }

    /// Commits batches together and answers them; gives back those that the database refused.
    fn commit_group(&mut self, jobs: Vec<Job>) -> Vec<(Job, StoreError)> {
        let (ready, changes) = self.plan_group(jobs);
        if ready.is_empty() {
            return Vec::new();
        }
        match self.write(&changes) {
            Ok(last_seq) => {
                self.last_seq = last_seq;
                self.state.absorb(changes);
                fault::point("loopd.after-commit");
                self.announce(ready);
                Vec::new()
            }
            Err(error) => {
                let error = StoreError::database(&self.options.db, &error);
                tracing::warn!(%error, batches = ready.len(), "a commit failed");
                let failed = ready.into_iter();
                failed.map(|ready| (ready.job, error.clone())).collect()
            }
        }
    }

    /// Plans each batch on top of the ones before it; answers those that can't be stored.
    fn plan_group(&mut self, jobs: Vec<Job>) -> (Vec<Ready>, Changes) {
        let mut sound = Vec::with_capacity(jobs.len());
        for job in jobs {
            match self.read_for(&job.batch) {
                Ok(()) => sound.push(job),
                Err(error) => {
                    let _ = job.reply.send(Err(error));
                }
            }
        }
        let ts = self.now();
        let mut layer = Layer::over(&self.state);
        let mut ready = Vec::with_capacity(sound.len());
        for job in sound {
            match plan_one(&layer, &job.batch, &ts) {
                Ok(mut plan) => {
                    layer.absorb(std::mem::take(&mut plan.changes));
                    ready.push(Ready { job, plan });
                }
                Err(error) => {
                    let _ = job.reply.send(Err(error));
                }
            }
        }
        (ready, layer.into_changes())
    }

    /// One transaction with everything, synced; gives the number of the last journal row.
    fn write(&mut self, changes: &Changes) -> rusqlite::Result<i64> {
        let behavior = TransactionBehavior::Immediate;
        let transaction = self.db.transaction_with_behavior(behavior)?;
        let mut seq = self.last_seq;
        for (session, head) in &changes.heads {
            rows::put_head(&transaction, session, head)?;
        }
        for (key, stored) in &changes.accounts {
            // A reservation alone changes no row: what is reserved is the sum of its own table.
            if !self
                .state
                .account(key)
                .is_some_and(|old| old.same_row(stored))
            {
                rows::put_account(&transaction, key, stored)?;
            }
        }
        for row in &changes.rows {
            match row {
                Row::Journal {
                    session,
                    first_byte,
                    text,
                } => {
                    seq += 1;
                    rows::put_piece(&transaction, seq, *session, *first_byte, text)?;
                }
                Row::Reserve(call, held) => rows::put_reservation(&transaction, call, held)?,
                Row::Unreserve(call) => rows::remove_reservation(&transaction, call)?,
                Row::Charge(charge) => rows::put_charge(&transaction, charge)?,
            }
        }
        fault::point("loopd.before-commit");
        transaction.commit()?;
        Ok(seq)
    }

    /// Applies changes of the store's own making.
    pub(super) fn apply(&mut self, changes: Changes) -> Result<(), StoreError> {
        let written = self.write(&changes);
        self.last_seq = written.map_err(|error| StoreError::database(&self.options.db, &error))?;
        self.state.absorb(changes);
        Ok(())
    }

    /// Answers first, so that turns go on while the files are written.
    fn announce(&mut self, ready: Vec<Ready>) {
        let mut written = Vec::with_capacity(ready.len());
        for Ready { job, plan } in ready {
            let committed = Committed {
                lines: plan.lines,
                reserved: plan.reserved,
            };
            let _ = job.reply.send(Ok(committed));
            if !plan.text.is_empty() {
                written.push((job.batch.session, plan.first_byte, plan.text));
            }
        }
        for (session, first_byte, text) in written {
            self.append(session, first_byte, &text);
        }
        let hurry = self.journal_bytes >= HURRY_BYTES;
        self.call_housekeeper(if hurry { Nudge::Hurry } else { Nudge::Dirty });
        fault::point("loopd.after-append");
    }

    fn append(&mut self, session: SessionId, first_byte: u64, text: &str) {
        self.journal_bytes += text.len();
        if !self.behind.contains_key(&session) {
            match self.files.append(&session, first_byte, text.as_bytes()) {
                Ok(()) => {
                    let fresh = self.dirty.entry(session).or_insert(false);
                    *fresh |= first_byte == 0;
                }
                Err(error) => {
                    tracing::warn!(%session, %error, "a transcript file waits for its lines");
                    self.behind.insert(session, Trust::Whole);
                }
            }
        }
    }

    /// Calls the housekeeper, unless it was told as much already: each call wakes its thread.
    pub(super) fn call_housekeeper(&mut self, nudge: Nudge) {
        if self.told >= Some(nudge) {
            return;
        }
        self.told = Some(nudge);
        if let Some(to) = &self.nudge {
            // A full channel means that calls wait for it already.
            let _ = to.try_send(nudge);
        }
    }

    /// Reads what a batch's plan looks at into memory.
    fn read_for(&mut self, batch: &Batch) -> Result<(), StoreError> {
        self.read_head(&batch.session)?;
        let mut keys = BTreeSet::new();
        for op in &batch.ops {
            keys.extend(op.accounts().into_iter().flatten());
        }
        for key in keys {
            self.read_chain(key)?;
        }
        Ok(())
    }

    /// The time as it is written everywhere: RFC 3339 in UTC with milliseconds.
    pub(super) fn now(&self) -> String {
        format!("{:.3}", (self.options.clock)())
    }
}

/// Puts a batch to the others; gives back anything else.
fn sort(command: Command, jobs: &mut Vec<Job>) -> Option<Command> {
    match command {
        Command::Commit(job) => {
            jobs.push(job);
            None
        }
        other => Some(other),
    }
}

fn plan_one(layer: &Layer<'_>, batch: &Batch, ts: &str) -> Result<Plan, StoreError> {
    let session = &batch.session;
    let Some(head) = layer.head(session).cloned() else {
        return Err(StoreError::SessionUnknown(session.clone()));
    };
    let planned = plan(layer, head, batch, ts).map_err(|source| StoreError::Batch {
        session: session.clone(),
        source,
    })?;
    if planned.first_byte + planned.text.len() as u64 > MAX_TRANSCRIPT_BYTES {
        return Err(StoreError::TranscriptFull {
            session: session.clone(),
            limit_bytes: MAX_TRANSCRIPT_BYTES,
        });
    }
    Ok(planned)
}
