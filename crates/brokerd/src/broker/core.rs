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
use bxcore::audit::Kind;
use bxcore::code::Code;
use bxcore::grant::Grant;
use bxcore::label::Label;
use bxcore::money::MicroUsd;
use bxcore::problem::Problem;
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
    pub(super) halted: Option<Problem>,
}

/// What a batch has gathered so far.
pub(super) struct Batch {
    pub(super) durability: Durability,
    pub(super) notes: Vec<Note>,
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
