//! The thread that owns the index: searches as they come, and taking in what is new in between.

use crate::index::{Index, IndexError, Progress};
use bxcore::code::Code;
use bxcore::problem::Problem;
use bxcore::wire::memoryd::{RecallRequest, Recalled};
use jiff::Timestamp;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// How many searches may wait.
pub const MAX_QUEUED_SEARCHES: usize = 64;
/// How long a search waits for what is new to be taken in; then it goes without the rest.
pub const REFRESH_WITHIN: Duration = Duration::from_secs(3);
/// How long taking in goes on before a look whether somebody searches.
const REFRESH_SLICE: Duration = Duration::from_millis(200);

struct Job {
    request: RecallRequest,
    reply: oneshot::Sender<Result<Recalled, Problem>>,
}

/// The handle on the index. Cheap to clone; the thread ends with the last one.
#[derive(Debug, Clone)]
pub struct Searcher {
    jobs: SyncSender<Job>,
}

impl Searcher {
    /// Starts the thread, which begins with taking in what is new.
    ///
    /// `failed` is told what went wrong each time that something did.
    pub fn start(index: Index, failed: impl Fn() + Send + 'static) -> (Self, JoinHandle<()>) {
        let (jobs, queue) = sync_channel(MAX_QUEUED_SEARCHES);
        let thread = tokio::task::spawn_blocking(move || work(index, &queue, &failed));
        (Self { jobs }, thread)
    }

    /// Searches.
    ///
    /// # Errors
    /// Too many searches wait, or the index can't be made.
    pub async fn recall(&self, request: RecallRequest) -> Result<Recalled, Problem> {
        let (reply, answer) = oneshot::channel();
        let busy = |_| {
            Problem::new(Code::RoleUnreachable, "Too many searches wait already")
                .hint("try again in a moment")
        };
        self.jobs.try_send(Job { request, reply }).map_err(busy)?;
        answer.await.unwrap_or_else(|_| {
            Err(Problem::new(Code::RoleUnreachable, "memoryd is ending")
                .hint("try again in a moment"))
        })
    }
}

fn work(mut index: Index, queue: &Receiver<Job>, failed: &impl Fn()) {
    let mut progress = Progress::Partial;
    loop {
        let job = match progress {
            Progress::Complete => queue.recv().map_err(|_| TryRecvError::Disconnected),
            Progress::Partial => queue.try_recv(),
        };
        progress = match job {
            Ok(Job { request, reply }) => {
                let until = Instant::now() + REFRESH_WITHIN;
                let found = index.recall(&request, Timestamp::now(), until);
                let progress = match &found {
                    Ok(found) if !found.complete => Progress::Partial,
                    _ => Progress::Complete,
                };
                tell(found.as_ref().err(), failed);
                // Whoever asked may be gone.
                let _ = reply.send(found.map_err(Problem::from));
                progress
            }
            Err(TryRecvError::Empty) => {
                let until = Instant::now() + REFRESH_SLICE;
                let refreshed = index.refresh(Timestamp::now(), until);
                tell(refreshed.as_ref().err(), failed);
                // What failed is tried again with the next search.
                refreshed.unwrap_or(Progress::Complete)
            }
            Err(TryRecvError::Disconnected) => return,
        };
    }
}

fn tell(error: Option<&IndexError>, failed: &impl Fn()) {
    if let Some(error) = error {
        tracing::error!(why = %bxkit::report::chain(error), "memory can't be searched");
        failed();
    }
}
