//! Admits model calls and owns those under way.

use super::call::{Call, Surroundings};
use super::events::{AnswerReceiver, answer_channel};
use super::head::ChatHead;
use super::running::Running;
use crate::backend::{Registry, unusable_problem};
use crate::dump::Dump;
use crate::limits::Limits;
use bxcore::chat::{Expected, check_body};
use bxcore::code::Code;
use bxcore::problem::Problem;
use bxcore::wire::inferproxy::{BackendKind, BackendState, StopReply, StopRequest};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long calls under way may take to end when the process ends.
const SHUTDOWN_WAIT_SECS: u64 = 3;

/// Makes model calls. Cheap to clone; clones are the same engine.
#[derive(Debug, Clone)]
pub struct Engine {
    registry: Arc<Registry>,
    running: Running,
    around: Surroundings,
    tasks: TaskTracker,
}

impl Engine {
    /// An engine for these backends; must be made within a runtime.
    pub fn start(
        registry: Registry,
        limits: Limits,
        dump: Option<Dump>,
        shutdown: CancellationToken,
    ) -> Self {
        let tasks = TaskTracker::new();
        registry.start(&tasks, &shutdown);
        Self {
            registry: Arc::new(registry),
            running: Running::default(),
            around: Surroundings {
                limits,
                dump,
                shutdown,
            },
            tasks,
        }
    }

    /// The backends.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The time limits of calls.
    pub fn limits(&self) -> &Limits {
        &self.around.limits
    }

    /// Admits a call and begins it; the answer comes through the receiver, as server-sent events.
    ///
    /// Dropping the receiver ends the call.
    ///
    /// # Errors
    /// The call may not be made: no such backend, a field or a slot that is not allowed, a server
    /// that can't be used. Whatever goes wrong later comes as an event.
    pub async fn begin(&self, head: ChatHead, body: Bytes) -> Result<AnswerReceiver, Problem> {
        let backend = Arc::clone(self.registry.get(&head.backend).await?);
        let known = backend.current();
        let info = &known.info;
        if info.state != BackendState::Loading
            && let Some(problem) = unusable_problem(info)
        {
            return Err(problem);
        }
        let slot = head.slot.filter(|_| info.kind == BackendKind::LlamaServer);
        check_body(
            &body,
            &Expected {
                kind: info.kind,
                slot,
                model: &info.model,
            },
        )?;
        let running = self
            .running
            .begin(head.session.clone(), head.call)
            .ok_or_else(|| {
                let title = format!(
                    "Call {} of session `{}` is under way already",
                    head.call, head.session
                );
                Problem::new(Code::BadRequest, title)
            })?;
        let call = Call::admit(head, backend, body, self.around.clone())?;
        let (out, answer) = answer_channel();
        self.tasks.spawn(call.run(running, out));
        Ok(answer)
    }

    /// Stops a call under way and says what became of its slot.
    pub async fn stop(&self, request: StopRequest) -> StopReply {
        let wait = self.around.limits.stop_wait;
        self.running.stop(request.session, request.call, wait).await
    }

    /// How many calls are under way, those whose slot drains included.
    pub fn running(&self) -> usize {
        self.running.count()
    }

    /// Waits a bounded time for calls to end, once the shutdown has begun.
    pub async fn ended(&self) {
        self.tasks.close();
        let wait = Duration::from_secs(SHUTDOWN_WAIT_SECS);
        if tokio::time::timeout(wait, self.tasks.wait()).await.is_err() {
            tracing::info!(
                calls = self.running(),
                "slots were still draining at the end"
            );
        }
    }
}
