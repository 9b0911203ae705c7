//! Syncs transcript files, prunes the journal and moves the write-ahead log along, off the path of
//! commits.

use super::StoreError;
use super::command::{Command, SyncResult, SyncWork};
use super::files::{folder, log_path};
use super::options::StoreOptions;
use super::reconcile::Trust;
use super::rows;
use super::schema;
use super::state::View;
use super::writer::Writer;
use bxcore::id::SessionId;
use bxkit::fsx::{careful, sync_dir};
use rusqlite::Connection;
use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Instant;
use tokio::sync::mpsc::{self, WeakSender};

/// How many journal rows are dropped in one transaction; commits go on between two of them.
const PRUNE_ROWS: i64 = 2_048;
/// How many calls to the housekeeper may wait; more say nothing new.
const MAX_NUDGES: usize = 2;

/// A call to the housekeeper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Nudge {
    /// There is something to sync, in its time.
    Dirty,
    /// There is much to sync, now.
    Hurry,
}

/// The housekeeper's thread.
#[derive(Debug)]
pub(super) struct Housekeeper {
    nudge: SyncSender<Nudge>,
    thread: JoinHandle<()>,
}

impl Housekeeper {
    /// Starts the thread. It ends when the writer does.
    pub(super) fn start(
        options: StoreOptions,
        writer: WeakSender<Command>,
    ) -> Result<Self, StoreError> {
        let failed = |error| StoreError::database(&options.db, &error);
        let db = schema::open_housekeeper(&options.db).map_err(failed)?;
        let (nudge, nudges) = sync_channel(MAX_NUDGES);
        let place = options.db.clone();
        let thread = thread::Builder::new()
            .name("loopd-housekeeper".to_owned())
            .spawn(move || keep_house(&options, &db, &writer, &nudges))
            .map_err(|error| StoreError::file(&place, &error))?;
        Ok(Self { nudge, thread })
    }

    /// Something to call it with.
    pub(super) fn nudge(&self) -> SyncSender<Nudge> {
        self.nudge.clone()
    }

    /// Waits for its end. The writer's inbox must be closed and every other nudge be gone.
    pub(super) fn join(self) {
        let Self { nudge, thread } = self;
        drop(nudge);
        if thread.join().is_err() {
            tracing::error!("the housekeeper of the store panicked");
        }
    }
}

fn keep_house(
    options: &StoreOptions,
    db: &Connection,
    writer: &WeakSender<Command>,
    nudges: &Receiver<Nudge>,
) {
    while let Ok(nudge) = nudges.recv() {
        if nudge == Nudge::Dirty && !gather(options, nudges) {
            return;
        }
        // Without a handle the writer is at its end and syncs by itself.
        let Some(writer) = writer.upgrade() else {
            return;
        };
        if round(options, &writer).is_none() {
            return;
        }
        if let Err(error) = db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())) {
            tracing::warn!(%error, "the write-ahead log could not be moved along");
        }
    }
}

/// Lets the interval pass in which more comes together; `false` if the writer ended meanwhile.
fn gather(options: &StoreOptions, nudges: &Receiver<Nudge>) -> bool {
    let until = Instant::now() + options.sync_interval;
    loop {
        match nudges.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(Nudge::Dirty) => {}
            Ok(Nudge::Hurry) | Err(RecvTimeoutError::Timeout) => return true,
            Err(RecvTimeoutError::Disconnected) => return false,
        }
    }
}

/// One round of syncing and pruning; `None` if the writer ended meanwhile.
fn round(options: &StoreOptions, writer: &mpsc::Sender<Command>) -> Option<()> {
    let (reply, answer) = sync_channel(1);
    writer.blocking_send(Command::BeginSync(reply)).ok()?;
    let work = answer.recv().ok()?;
    let failed = sync_files(&options.sessions_dir, &work);
    let up_to = work.up_to.filter(|_| failed.is_empty());
    let result = SyncResult { failed };
    writer.blocking_send(Command::EndSync(result)).ok()?;
    let Some(up_to) = up_to else { return Some(()) };
    loop {
        let (more, answer) = sync_channel(1);
        writer.blocking_send(Command::Prune { up_to, more }).ok()?;
        if !answer.recv().ok()? {
            return Some(());
        }
    }
}

/// Syncs files; gives the sessions for which that failed.
fn sync_files(sessions: &Path, work: &SyncWork) -> Vec<SessionId> {
    let mut failed = Vec::new();
    let mut any_fresh = false;
    for (session, fresh) in &work.files {
        any_fresh |= fresh;
        if let Err(error) = sync_file(sessions, session, *fresh) {
            tracing::warn!(%session, %error, "a transcript file could not be synced");
            failed.push(session.clone());
        }
    }
    if any_fresh && let Err(error) = sync_dir(sessions) {
        tracing::warn!(%error, "the folder of sessions could not be synced");
        let fresh = work.files.iter().filter(|(_, fresh)| *fresh);
        failed.extend(fresh.map(|(session, _)| session.clone()));
    }
    failed
}

fn sync_file(sessions: &Path, session: &SessionId, fresh: bool) -> io::Result<()> {
    let log = careful().read(true).open(log_path(sessions, session))?;
    log.sync_data()?;
    if fresh {
        sync_dir(&folder(sessions, session))?;
    }
    Ok(())
}

impl Writer {
    /// Hands out the files to sync, after adding what some lack.
    pub(super) fn begin_sync(&mut self) -> SyncWork {
        self.told = None;
        self.journal_bytes = 0;
        // Before the journal is pruned of what only a file without a name may have.
        let dirty: Vec<SessionId> = self.dirty.keys().cloned().collect();
        for session in dirty {
            if let Err(error) = self.look_again(&session) {
                tracing::warn!(%session, %error, "a transcript file is not what was written");
            }
        }
        let behind: Vec<SessionId> = self.behind.keys().cloned().collect();
        for session in behind {
            if let Err(error) = self.catch_up(&session) {
                tracing::warn!(%session, %error, "a transcript file still waits for its lines");
            }
        }
        SyncWork {
            files: std::mem::take(&mut self.dirty).into_iter().collect(),
            up_to: self.behind.is_empty().then_some(self.last_seq),
        }
    }

    /// What could not be synced is written again from the journal: after a failed sync the system
    /// may call pages clean that never reached the disk.
    pub(super) fn end_sync(&mut self, result: SyncResult) {
        for session in result.failed {
            self.files.forget(&session);
            self.behind.insert(session, Trust::UpToJournal);
        }
        if !self.behind.is_empty() {
            self.call_housekeeper(Nudge::Dirty);
        }
    }

    /// Adds to a session's file what it lacks.
    pub(super) fn catch_up(&mut self, session: &SessionId) -> Result<(), StoreError> {
        let Some(trust) = self.behind.get(session).copied() else {
            return Ok(());
        };
        let known = self.state.head(session).cloned();
        let head = match known {
            Some(head) => Some(head),
            None => rows::head(&self.db, session)
                .map_err(|error| self.database(&error))?
                .map(|(head, _)| head),
        };
        // A session that was deleted since lacks nothing.
        let Some(head) = head else {
            self.behind.remove(session);
            return Ok(());
        };
        let pieces = rows::pieces(&self.db, head.row).map_err(|error| self.database(&error))?;
        let head = self.put_right(session, head, &pieces, trust)?;
        self.behind.remove(session);
        self.state.know_head(session.clone(), head);
        Ok(())
    }

    /// Drops some journal rows; says whether more of them are left. Rows that can't be dropped now
    /// are dropped in a later round.
    pub(super) fn prune(&mut self, up_to: i64) -> bool {
        match rows::prune(&self.db, up_to, PRUNE_ROWS) {
            Ok(more) => more,
            Err(error) => {
                tracing::warn!(%error, "the journal could not be pruned");
                false
            }
        }
    }

    /// Leaves everything in files and the journal empty, as far as the disk allows.
    pub(super) fn finish(&mut self) {
        let work = self.begin_sync();
        let failed = sync_files(&self.options.sessions_dir, &work);
        if let (Some(up_to), true) = (work.up_to, failed.is_empty()) {
            let rows = up_to.saturating_add(1);
            if let Err(error) = rows::prune(&self.db, up_to, rows) {
                tracing::warn!(%error, "the journal could not be pruned");
            }
        }
        if let Err(error) = self
            .db
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        {
            tracing::warn!(%error, "the write-ahead log could not be emptied");
        }
    }
}
