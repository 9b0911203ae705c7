//! A role's background tasks: named, owned, waited for.

use super::fatal::FatalSwitch;
use bxcore::code::Code;
use bxcore::problem::Problem;
use futures_util::FutureExt;
use std::panic::AssertUnwindSafe;
use std::time::Duration;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

/// The background tasks of a role.
///
/// A task ends by itself when the shutdown begins; one that panics takes the role with it, so that
/// the supervisor starts it afresh instead of leaving it half alive.
#[derive(Debug, Clone)]
pub struct Tasks {
    tracker: TaskTracker,
    fatal: FatalSwitch,
}

impl Tasks {
    pub(super) fn new(fatal: FatalSwitch) -> Self {
        Self {
            tracker: TaskTracker::new(),
            fatal,
        }
    }

    /// Starts a task.
    pub fn spawn(&self, name: &'static str, work: impl Future<Output = ()> + Send + 'static) {
        let fatal = self.fatal.clone();
        let guarded = async move {
            if AssertUnwindSafe(work).catch_unwind().await.is_err() {
                let title = format!("The background task `{name}` failed");
                fatal.end(
                    Problem::new(Code::Internal, title)
                        .hint("the log has the details; please report it"),
                );
            }
        };
        self.tracker
            .spawn(guarded.instrument(tracing::info_span!("task", name)));
    }

    /// Waits until all have ended, at most `within`; says whether they have.
    pub(super) async fn wait(&self, within: Duration) -> bool {
        self.tracker.close();
        tokio::time::timeout(within, self.tracker.wait())
            .await
            .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit;
    use tokio_util::sync::CancellationToken;

    #[tokio::test]
    async fn tasks_are_waited_for() {
        let shutdown = CancellationToken::new();
        let tasks = Tasks::new(FatalSwitch::new(shutdown.clone()));
        let token = shutdown.clone();
        tasks.spawn("waits", async move { token.cancelled().await });
        assert!(!tasks.wait(Duration::from_millis(10)).await);
        shutdown.cancel();
        assert!(tasks.wait(Duration::from_secs(10)).await);
    }

    #[tokio::test]
    async fn a_panic_ends_the_role() {
        let shutdown = CancellationToken::new();
        let fatal = FatalSwitch::new(shutdown.clone());
        Tasks::new(fatal.clone()).spawn("breaks", async { panic!("oh") });
        shutdown.cancelled().await;
        let cause = fatal.cause().unwrap();
        assert_eq!(
            (cause.exit, cause.problem.code),
            (exit::FAILED, Code::Internal)
        );
        assert!(cause.problem.title.contains("breaks"));
    }
}
