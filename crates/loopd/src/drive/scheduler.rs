//! Begins by the clock what is due, once each: a run is on record before it begins, together with
//! the turn that it will be, so that a start after a crash knows whether it had begun.

use super::engine::{Engine, held};
use super::holds::Hold;
use super::sink::EventSink;
use crate::schedule::{Due, Ended, Entry, Run, Schedule, Stamp};
use crate::store::StoreError;
use bxcore::code::Code;
use bxcore::id::{SessionId, TurnId};
use bxcore::problem::Problem;
use bxcore::transcript::Entry as Logged;
use bxcore::wire::loopd::{JobRow, TurnRequest};
use jiff::{Timestamp, Zoned};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// The longest that the clock is not looked at: it can be set, and the machine can sleep.
const LONGEST_NAP: Duration = Duration::from_secs(30);
/// The shortest, so that a time that never passes costs nothing.
const SHORTEST_NAP: Duration = Duration::from_millis(50);

/// The schedule, and what is known of each of its entries.
#[derive(Debug, Default)]
pub(super) struct Scheduled {
    schedule: Schedule,
    stamps: Mutex<BTreeMap<SessionId, Stamp>>,
    /// Told when a run has ended: its entry's next time is known then.
    changed: Notify,
    /// Held while a stamp is changed: two at once would lose one of both.
    changing: tokio::sync::Mutex<()>,
}

impl Scheduled {
    pub(super) fn new(schedule: Schedule) -> Self {
        Self {
            schedule,
            stamps: Mutex::default(),
            changed: Notify::new(),
            changing: tokio::sync::Mutex::default(),
        }
    }

    /// How many entries there are.
    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.schedule.entries().len()).unwrap_or(u32::MAX)
    }

    fn stamps(&self) -> MutexGuard<'_, BTreeMap<SessionId, Stamp>> {
        self.stamps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stamp(&self, session: &SessionId) -> Option<Stamp> {
        self.stamps().get(session).cloned()
    }
}

impl Engine {
    /// Watches the clock until the role ends. What a crash interrupted must be held before.
    pub fn keep_schedule(self: &Arc<Self>) {
        if self.scheduled.count() == 0 {
            return;
        }
        let engine = Arc::clone(self);
        self.spawn("schedule", async move {
            if let Err(problem) = engine.watch_clock().await {
                tracing::error!(code = %problem.code, %problem, "the schedule can't be kept");
            }
        });
    }

    async fn watch_clock(self: &Arc<Self>) -> Result<(), Problem> {
        self.remember_stamps().await?;
        loop {
            let now = Timestamp::now();
            let mut nap = LONGEST_NAP;
            for entry in self.scheduled.schedule.entries() {
                let Some(stamp) = self.scheduled.stamp(&entry.session) else {
                    continue;
                };
                if stamp.is_running() {
                    continue;
                }
                if let Some(due) = entry.due(&stamp, now) {
                    self.begin_due(entry, due, now).await;
                } else if let Some(next) = entry.next(&stamp, now) {
                    let until = Duration::try_from(next.duration_since(now));
                    nap = nap.min(until.unwrap_or(SHORTEST_NAP));
                }
            }
            tokio::select! {
                () = tokio::time::sleep(nap.max(SHORTEST_NAP)) => {}
                () = self.scheduled.changed.notified() => {}
            }
        }
    }

    /// Reads what is known, makes new entries known, and sees to runs that a crash interrupted.
    async fn remember_stamps(self: &Arc<Self>) -> Result<(), Problem> {
        let now = Timestamp::now();
        let mut known = self.store.stamps().await?;
        for entry in self.scheduled.schedule.entries() {
            let session = &entry.session;
            let stamp = match known.remove(session) {
                Some(stamp) => stamp,
                None => {
                    let stamp = Stamp::first(now);
                    self.store.put_stamp(session, &stamp).await?;
                    stamp
                }
            };
            let run = stamp.run.clone().filter(|run| run.ended.is_none());
            self.scheduled.stamps().insert(session.clone(), stamp);
            if let Some(run) = run {
                self.go_on_with(entry, run).await?;
            }
        }
        Ok(())
    }

    /// A run whose end is not on record: one that had begun is waited for, another begins now.
    async fn go_on_with(self: &Arc<Self>, entry: &Entry, run: Run) -> Result<(), Problem> {
        let session = entry.session.clone();
        let counters = self.store.counters(&session).await?;
        if counters.turn < run.turn {
            tracing::info!(%session, "a scheduled turn had not begun, and begins now");
            return self.begin_late(entry, &run).await;
        }
        let engine = Arc::clone(self);
        self.spawn("scheduled turn", async move {
            // The turn itself goes on as every interrupted turn does.
            let held = engine.holds.take(&session).await;
            let ended = engine.end_of(&session, run.turn, None).await;
            drop(held);
            engine.note_end(&session, ended).await;
        });
        Ok(())
    }

    /// Begins a run that is on record and had not begun; where that can't be, it has ended.
    async fn begin_late(self: &Arc<Self>, entry: &Entry, run: &Run) -> Result<(), Problem> {
        let (session, now) = (&entry.session, Timestamp::now());
        let due = Due { since: run.due };
        let begun = match self.holds.try_take(session) {
            Ok(hold) => self.begin_run(entry, due, now, hold).await,
            Err(_) => Err(held(session)),
        };
        if let Err(problem) = begun {
            let ended = Ended {
                at: now,
                outcome: None,
                code: Some(problem.code),
            };
            self.note_end(session, ended).await;
        }
        Ok(())
    }

    /// Begins what is due, unless its session is busy: then it is left out, this once.
    async fn begin_due(self: &Arc<Self>, entry: &Entry, due: Due, now: Timestamp) {
        let session = &entry.session;
        let begun = match self.holds.try_take(session) {
            Ok(hold) => self.begin_run(entry, due, now, hold).await,
            Err(_) => self.skip(session, now).await,
        };
        if let Err(problem) = begun {
            // It stays due, and is tried again at the next look.
            tracing::error!(%session, code = %problem.code, %problem, "a scheduled turn can't begin");
        }
    }

    async fn skip(&self, session: &SessionId, now: Timestamp) -> Result<(), Problem> {
        tracing::info!(%session, "its session is busy: what was due is left out");
        self.change_stamp(session, |stamp| {
            stamp.through = now;
            stamp.skipped = Some(now);
        })
        .await
    }

    /// Puts a run on record and begins its turn.
    async fn begin_run(
        self: &Arc<Self>,
        entry: &Entry,
        due: Due,
        now: Timestamp,
        hold: Hold,
    ) -> Result<(), Problem> {
        let session = entry.session.clone();
        let turn = self.store.counters(&session).await?.turn.next();
        let run = Run {
            due: due.since,
            began: now,
            turn,
            ended: None,
        };
        self.change_stamp(&session, |stamp| {
            stamp.through = now;
            stamp.run = Some(run);
        })
        .await?;
        bxkit::fault::point("loopd.after-stamp");
        let request = TurnRequest {
            session: Some(session.clone()),
            text: entry.message(due, now),
            class: entry.class,
            backend: entry.backend.clone(),
            no_wait: true,
        };
        let engine = Arc::clone(self);
        self.spawn("scheduled turn", async move {
            let mut sink = EventSink::nobody();
            let done = engine.turn_in(&session, &request, &hold, &mut sink).await;
            let ended = engine.end_of(&session, turn, done.err()).await;
            drop(hold);
            engine.note_end(&session, ended).await;
        });
        Ok(())
    }

    /// How a turn ended, by its session's transcript.
    async fn end_of(&self, session: &SessionId, turn: TurnId, problem: Option<Problem>) -> Ended {
        let at = Timestamp::now();
        let lines = match self.store.load(session).await {
            Ok(lines) => lines,
            Err(StoreError::SessionUnknown(_)) => Vec::new(),
            Err(error) => {
                let code = Some(Problem::from(error).code);
                return Ended {
                    at,
                    outcome: None,
                    code,
                };
            }
        };
        let end = lines.iter().rev().find_map(|line| match &line.entry {
            Logged::TurnEnd(end) if end.turn == turn => Some(end),
            _ => None,
        });
        match end {
            Some(end) => Ended {
                at,
                outcome: Some(end.outcome),
                code: end.code,
            },
            None => Ended {
                at,
                outcome: None,
                code: Some(problem.map_or(Code::Interrupted, |problem| problem.code)),
            },
        }
    }

    async fn note_end(&self, session: &SessionId, ended: Ended) {
        let Ended { outcome, code, .. } = &ended;
        tracing::info!(%session, ?outcome, ?code, "a scheduled turn ended");
        let entry = self.scheduled.schedule.entry(session);
        let end = |stamp: &mut Stamp| {
            // What came due meanwhile is left out, as it is whenever the session is busy.
            if entry.is_some_and(|entry| entry.came_due(stamp, ended.at)) {
                stamp.skipped = Some(ended.at);
            }
            // A long heartbeat must not be due again as soon as it ends.
            stamp.through = stamp.through.max(ended.at);
            if let Some(run) = &mut stamp.run {
                run.ended = Some(ended.clone());
            }
        };
        if let Err(problem) = self.change_stamp(session, end).await {
            tracing::error!(%session, %problem, "the end of a scheduled turn is not on record");
            // It is over all the same: what comes next must not wait for it.
            if let Some(stamp) = self.scheduled.stamps().get_mut(session) {
                end(stamp);
            }
        }
        self.scheduled.changed.notify_one();
    }

    async fn change_stamp(
        &self,
        session: &SessionId,
        change: impl FnOnce(&mut Stamp),
    ) -> Result<(), Problem> {
        let _alone = self.scheduled.changing.lock().await;
        let mut stamp = self
            .scheduled
            .stamp(session)
            .unwrap_or_else(|| Stamp::first(Timestamp::now()));
        change(&mut stamp);
        self.store.put_stamp(session, &stamp).await?;
        self.scheduled.stamps().insert(session.clone(), stamp);
        Ok(())
    }

    /// Every entry of the schedule, and how it stands with it.
    pub fn jobs(&self) -> Vec<JobRow> {
        let now = Timestamp::now();
        let entries = self.scheduled.schedule.entries().iter();
        entries.map(|entry| self.job_row(entry, now)).collect()
    }

    fn job_row(&self, entry: &Entry, now: Timestamp) -> JobRow {
        let stamp = self.scheduled.stamp(&entry.session);
        let stamp = stamp.unwrap_or_else(|| Stamp::first(now));
        let here = |time: Timestamp| shown(&time.to_zoned(entry.zone.clone()));
        let run = stamp.run.as_ref();
        let ended = run.and_then(|run| run.ended.as_ref());
        let skipped = stamp
            .skipped
            .filter(|at| run.is_none_or(|run| *at > run.began));
        JobRow {
            session: entry.session.clone(),
            rule: entry.rule(),
            running: stamp.is_running(),
            next: entry.next(&stamp, now).map(here),
            began: run.map(|run| here(run.began)),
            outcome: ended.and_then(|ended| ended.outcome),
            code: ended.and_then(|ended| ended.code),
            skipped: skipped.map(here),
        }
    }

    /// Begins an entry now, whatever its time is.
    ///
    /// # Errors
    /// There is no such entry, or a turn is under way in its session.
    pub async fn run_job(self: &Arc<Self>, session: &SessionId) -> Result<JobRow, Problem> {
        let entry = self.scheduled.schedule.entry(session).ok_or_else(|| {
            let title = format!("There is no job with the session `{session}`");
            Problem::new(Code::NotFound, title).hint("`boxmaker jobs` lists what there is")
        })?;
        let hold = self.holds.try_take(session).map_err(|error| {
            held(session).detail(error.to_string()).hint(format!(
                "wait for it, or stop it with `boxmaker session stop {session}`"
            ))
        })?;
        let now = Timestamp::now();
        self.begin_run(entry, Due { since: now }, now, hold).await?;
        Ok(self.job_row(entry, now))
    }
}

/// A time as people and programs read it, to the second.
fn shown(time: &Zoned) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()
}
