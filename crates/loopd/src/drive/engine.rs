//! The engine: what every turn shares, and what doors can ask of it.

use super::authority::Broker;
use super::holds::Holds;
use super::inference::Inference;
use super::live::LiveSessions;
use super::memory::Memory;
use super::scheduler::Scheduled;
use super::sink::EventSink;
use crate::config::Config;
use crate::delegation::Trees;
use crate::schedule::Schedule;
use crate::session::cache_rows;
use crate::slots::SlotGate;
use crate::store::{BackupName, RawLog, Recovery, Store};
use bxcore::code::Code;
use bxcore::id::SessionId;
use bxcore::problem::Problem;
use bxcore::wire::loopd::{
    Activity, BackupReport, CacheRow, SessionRow, SessionStatus, StopReport, TurnRequest,
};
use bxkit::daemon::Tasks;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// How long a stopped turn may take to end before it counts as not stopped.
const STOP_WAIT: Duration = Duration::from_secs(15);
/// How often a stop looks whether the turn has ended.
const STOP_POLL: Duration = Duration::from_millis(20);

/// What an engine is made of.
#[derive(Debug)]
pub struct Parts {
    /// The configuration.
    pub config: Config,
    /// What begins by the clock.
    pub schedule: Schedule,
    /// What is kept.
    pub store: Store,
    /// The way to a model.
    pub inference: Inference,
    /// The way to decisions.
    pub broker: Broker,
    /// The way to memory.
    pub memory: Memory,
    /// Background tasks; turns are among them.
    pub tasks: Tasks,
    /// Cancelled when the role is to end.
    pub shutdown: CancellationToken,
}

/// Everything that turns share.
#[derive(Debug)]
pub struct Engine {
    pub(super) config: Config,
    pub(super) store: Store,
    pub(super) inference: Inference,
    pub(super) broker: Broker,
    pub(super) memory: Memory,
    pub(super) gate: SlotGate,
    pub(super) holds: Holds,
    pub(super) live: LiveSessions,
    pub(super) trees: Trees,
    pub(super) scheduled: Scheduled,
    pub(super) shutdown: CancellationToken,
    tasks: Tasks,
    idle_since: Mutex<Instant>,
    me: Weak<Self>,
}

impl Engine {
    /// Puts an engine together; nothing runs yet.
    pub fn new(parts: Parts) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            config: parts.config,
            store: parts.store,
            inference: parts.inference,
            broker: parts.broker,
            memory: parts.memory,
            gate: SlotGate::default(),
            holds: Holds::default(),
            live: LiveSessions::default(),
            trees: Trees::default(),
            scheduled: Scheduled::new(parts.schedule),
            shutdown: parts.shutdown,
            tasks: parts.tasks,
            idle_since: Mutex::new(Instant::now()),
            me: Weak::clone(me),
        })
    }

    /// Begins a turn; the sink is told what becomes of it.
    pub fn spawn_turn(self: &Arc<Self>, request: TurnRequest, sink: EventSink) {
        let engine = Arc::clone(self);
        self.spawn("turn", async move { engine.turn(request, sink).await });
    }

    /// Begins to sum a session up; the sink is told what becomes of it.
    pub fn spawn_compaction(self: &Arc<Self>, session: SessionId, sink: EventSink) {
        let engine = Arc::clone(self);
        self.spawn(
            "compaction",
            async move { engine.compact(session, sink).await },
        );
    }

    /// Goes on with turns that a crash interrupted. Their sessions are held when this returns.
    pub fn resume(self: &Arc<Self>, recovery: Recovery) {
        for unfinished in recovery.unfinished {
            let Ok(hold) = self.holds.try_take(&unfinished.session) else {
                continue;
            };
            let engine = Arc::clone(self);
            self.spawn("resumed turn", async move {
                engine.resume_turn(hold, unfinished).await;
            });
        }
    }

    /// The engine, for work that outlives its caller; none while it ends.
    pub(super) fn shared(&self) -> Option<Arc<Self>> {
        self.me.upgrade()
    }

    /// Turns end with their work, or are left for the next start when the role ends: whatever they
    /// committed is resumed then.
    pub(super) fn spawn(
        self: &Arc<Self>,
        name: &'static str,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        let engine = Arc::clone(self);
        self.tasks.spawn(name, async move {
            let shutdown = engine.shutdown.clone();
            // The end comes first: nothing may be made of work that ended only because of it.
            tokio::select! {
                biased;
                () = shutdown.cancelled() => {}
                () = work => {}
            }
            engine.touch();
        });
    }

    /// The slot gate.
    pub fn gate(&self) -> &SlotGate {
        &self.gate
    }

    /// Whether anything is under way, and since when nothing is.
    pub fn activity(&self) -> Activity {
        let turns = self.holds.count();
        let since = *self
            .idle_since
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let idle = if turns == 0 {
            since.elapsed()
        } else {
            Duration::ZERO
        };
        Activity {
            turns: u32::try_from(turns).unwrap_or(u32::MAX),
            idle_ms: u64::try_from(idle.as_millis()).unwrap_or(u64::MAX),
            scheduled: self.scheduled.count(),
        }
    }

    fn touch(&self) {
        *self
            .idle_since
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Every session, the most recent first.
    pub async fn sessions(&self) -> Result<Vec<SessionRow>, Problem> {
        let mut rows = self.store.sessions().await?;
        for row in &mut rows {
            self.set_status(row);
        }
        Ok(rows)
    }

    /// One session.
    pub async fn session(&self, id: &SessionId) -> Result<SessionRow, Problem> {
        let mut row = self.store.session(id).await?;
        self.set_status(&mut row);
        Ok(row)
    }

    fn set_status(&self, row: &mut SessionRow) {
        if row.status != SessionStatus::Broken {
            let held = self.holds.is_held(&row.id);
            row.status = if held {
                SessionStatus::Running
            } else {
                SessionStatus::Idle
            };
        }
    }

    /// A session's transcript as it is on the disk.
    pub async fn transcript(&self, id: &SessionId) -> Result<RawLog, Problem> {
        Ok(self.store.raw_log(id).await?)
    }

    /// What the prompt cache did for each model call of a session.
    pub async fn cache_table(&self, id: &SessionId) -> Result<Vec<CacheRow>, Problem> {
        Ok(cache_rows(&self.store.load(id).await?))
    }

    /// Removes a session and everything it said. Its label and its ledger stay.
    pub async fn delete(&self, id: &SessionId) -> Result<(), Problem> {
        let hold = self.holds.try_take(id);
        let _hold = hold
            .map_err(|_| held(id).hint(format!("`boxmaker session stop {id}` stops the turn")))?;
        self.live.forget(id);
        self.store.delete(id).await?;
        Ok(self.broker.forget(id).await?)
    }

    /// Stops the turn under way in a session and everyone below it, and returns when all have ended.
    pub async fn stop(&self, id: &SessionId) -> Result<StopReport, Problem> {
        let mut tree = self.trees.below(id);
        let asked = self.holds.stop(id);
        if !asked {
            // A new session is not stored before its first turn has come that far.
            self.store.session(id).await?;
        }
        tree.push(id.clone());
        let deadline = Instant::now() + STOP_WAIT;
        // The turn stops its helpers itself, and ends after them.
        while asked && self.holds.is_stopping(id) && Instant::now() < deadline {
            tokio::time::sleep(STOP_POLL).await;
        }
        let count = |some: &dyn Fn(&SessionId) -> bool| {
            let count = tree.iter().filter(|session| asked && some(session)).count();
            u32::try_from(count).unwrap_or(u32::MAX)
        };
        let still = |session: &SessionId| self.holds.is_held(session);
        let draining = tree.iter().filter(|session| self.live.draining(session));
        Ok(StopReport {
            stopped: count(&|session| !still(session)),
            failed: count(&still),
            draining: u32::try_from(draining.count()).unwrap_or(u32::MAX),
        })
    }

    /// Makes a consistent copy of everything that is kept, while everything goes on.
    pub async fn backup(&self, name: &str) -> Result<BackupReport, Problem> {
        let name = BackupName::new(name).map_err(|error| {
            Problem::new(Code::BadUsage, "A backup can't have this name")
                .detail(error.to_string())
                .hint("leave the name out, and it is the time")
        })?;
        Ok(self.store.backup(name).await?)
    }
}

/// Another turn holds the session.
pub(super) fn held(id: &SessionId) -> Problem {
    Problem::new(
        Code::SessionHeld,
        format!("Another turn is under way in session `{id}`"),
    )
}
