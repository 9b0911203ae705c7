//! What the writer thread can be asked for.

use super::batch::{Batch, Committed};
use super::error::StoreError;
use super::views::{AccountView, Counters, RawLog};
use crate::budget::AccountKey;
use crate::schedule::Stamp;
use bxcore::id::SessionId;
use tokio::sync::oneshot;

/// Where an answer goes. A caller that no longer waits is no error.
pub(super) type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

/// A question to the writer thread, in the order in which they are answered.
#[derive(Debug)]
pub(super) enum Command {
    /// Make a batch durable.
    Commit(Job),
    /// Where a transcript stands, its file put right if need be.
    Log(SessionId, Reply<RawLog>),
    /// The highest numbers that a session used.
    Counters(SessionId, Reply<Counters>),
    /// An account with what is held on it.
    Account(AccountKey, Reply<Option<AccountView>>),
    /// Read a whole transcript that turned out not to be sound, and put it right if that can be.
    Recheck(SessionId, Reply<()>),
    /// Remove a session.
    Delete(SessionId, Reply<()>),
    /// Keep what is known of an entry of the schedule.
    PutStamp(SessionId, Stamp, Reply<()>),
    /// Which files to sync now. Asked by the housekeeper.
    BeginSync(std::sync::mpsc::SyncSender<SyncWork>),
    /// How that went. Told by the housekeeper.
    EndSync(SyncResult),
    /// Drop journal rows that are in synced files; says whether some are left.
    Prune {
        /// The last row to drop.
        up_to: i64,
        /// Where to say so.
        more: std::sync::mpsc::SyncSender<bool>,
    },
    /// Put everything in order and end.
    Close(oneshot::Sender<()>),
}

/// A batch and who waits for it.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) batch: Batch,
    pub(super) reply: Reply<Committed>,
}

/// Transcript files to sync.
#[derive(Debug)]
pub(super) struct SyncWork {
    /// Whose, and whether the file is new.
    pub(super) files: Vec<(SessionId, bool)>,
    /// The last journal row that these files cover; none if some file lacks lines.
    pub(super) up_to: Option<i64>,
}

/// What became of a [`SyncWork`].
#[derive(Debug)]
pub(super) struct SyncResult {
    /// Sessions whose file could not be synced: what it holds can't be trusted any more.
    pub(super) failed: Vec<SessionId>,
}
