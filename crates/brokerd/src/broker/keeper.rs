//! The keeper's thread: takes jobs as they come, as many at once as there are.

use super::core::Core;
use super::job::Job;
use bxcore::problem::Problem;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

/// How many jobs may wait.
pub const MAX_QUEUED_JOBS: usize = 1024;
/// How many jobs share one transaction and one sync.
pub const MAX_BATCH_JOBS: usize = 256;
/// How long a record that needs no sync of its own may stay without one, in milliseconds.
pub const KEEPER_SYNC_MS: u64 = 500;

/// How often it is looked whether nobody answered in time, in seconds, where somebody was asked.
/// Looking, not sleeping until then: a clock may be set.
const LATE_LOOK_SECS: u64 = 5;

/// Works until every handle is gone; blocks. Everything is on disk when it returns.
///
/// Calls `halt` once, when the log can't be written any more; every job after that is refused.
pub(super) fn keep(mut core: Core, mut jobs: mpsc::Receiver<Job>, halt: impl FnOnce(Problem)) {
    core.look_for_late();
    let runtime = Handle::current();
    let mut halt = Some(halt);
    let mut batch = Vec::with_capacity(MAX_BATCH_JOBS);
    loop {
        let first = match wait(&core) {
            Some(wait) => runtime.block_on(async { tokio::time::timeout(wait, jobs.recv()).await }),
            None => Ok(jobs.blocking_recv()),
        };
        match first {
            Err(_) if core.has_late() => {
                core.work(vec![Job::Expire]);
                // What could not be written is tried again later, and not at once for ever.
                if core.has_late() {
                    core.put_off_late(Duration::from_secs(LATE_LOOK_SECS));
                }
            }
            Err(_) => core.sync(),
            Ok(None) => break core.close(),
            Ok(Some(first)) => {
                batch.push(first);
                while batch.len() < MAX_BATCH_JOBS {
                    let Ok(job) = jobs.try_recv() else { break };
                    batch.push(job);
                }
                core.work(std::mem::take(&mut batch));
            }
        }
        if let (Some(problem), true) = (core.halted(), halt.is_some()) {
            let problem = problem.clone();
            if let Some(halt) = halt.take() {
                halt(problem);
            }
        }
    }
}

/// How long the next job may be waited for before there is something to do without one.
fn wait(core: &Core) -> Option<Duration> {
    if core.has_late() {
        return Some(Duration::ZERO);
    }
    if core.needs_sync() {
        return Some(Duration::from_millis(KEEPER_SYNC_MS));
    }
    core.next_late()
        .map(|_| Duration::from_secs(LATE_LOOK_SECS))
}
