//! From a request to its result: begun by the keeper, run or sent in between, ended by the keeper.

use super::handle::{Broker, gone};
use super::job::{Begun, Job, Ticket};
use super::outgoing::Errand;
use crate::consult::MAX_TIMEOUT_MS;
use crate::fetch::{self, Fetcher};
use crate::ledger::Key;
use crate::mcp;
use crate::sandbox::Sandbox;
use crate::tools::{Output, Run, TOOL_TIMEOUT_SECS, ToolError, Workspaces};
use bxcore::label::Label;
use bxcore::problem::Problem;
use bxcore::wire::approval::WAIT_SECS;
use bxcore::wire::brokerd::{CALL_TIMEOUT_SECS, CallAnswer, CallRequest};
use bxkit::fault;
use bytes::Bytes;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, SemaphorePermit, oneshot};

/// How long a request waits for its turn to leave.
pub(super) const ERRAND_WAIT: Duration = Duration::from_mins(2);

// Whoever asked is there still when the slowest question, after the longest wait, has its end.
const _: () = assert!(
    ERRAND_WAIT.as_secs() + MAX_TIMEOUT_MS / 1_000 < CALL_TIMEOUT_SECS,
    "a question may take longer than its caller waits"
);
const _: () = assert!(
    ERRAND_WAIT.as_secs() + fetch::TIMEOUT_MS / 1_000 < CALL_TIMEOUT_SECS,
    "a page may take longer than its caller waits"
);

const _: () = assert!(
    ERRAND_WAIT.as_secs() + mcp::LONGEST_SECS < CALL_TIMEOUT_SECS,
    "a tool of an MCP server may take longer than its caller waits"
);

/// How much earlier a tool is asked to end by itself, with what it has.
const TOOL_GRACE_SECS: u64 = 10;

impl Broker {
    /// Decides a call and runs it if it may; the same call again gets the same answer.
    ///
    /// Whoever awaits this may go away: a call that began is run to its end and recorded.
    ///
    /// A call that needs the owner's approval is told to wait at once, and the same call again
    /// waits for the answer, up to [`WAIT_SECS`].
    pub async fn call(&self, request: CallRequest) -> Result<CallAnswer, Problem> {
        let broker = self.clone();
        let driven = tokio::spawn(async move { broker.drive(request).await });
        driven.await.unwrap_or_else(|_| Err(gone()))
    }

    async fn drive(&self, request: CallRequest) -> Result<CallAnswer, Problem> {
        let begun = self.begin(request).await?;
        let began = Instant::now();
        let result = match begun {
            Begun::Awaiting { awaiting, is_new } => {
                if is_new {
                    self.tell_owner(awaiting.approval.clone());
                }
                return Ok(CallAnswer::Awaiting(awaiting));
            }
            Begun::Ended(result) => result,
            Begun::Run(ticket) => {
                let key = ticket.key.clone();
                let mut ticket = ticket;
                let output = match ticket.errand.take() {
                    Some(errand) => {
                        let output = self.send(errand).await;
                        let text = self.secrets.blotted(output.text);
                        Output { text, ..output }
                    }
                    None => self.run(*ticket).await,
                };
                Box::new(self.ask(|reply| Job::Finish { key, output, reply }).await?)
            }
        };
        metrics::histogram!("boxmaker_call_seconds").record(began.elapsed().as_secs_f64());
        Ok(CallAnswer::Ended(result))
    }

    /// Has a call begun, or told that it waits for the owner, once it has waited for long.
    async fn begin(&self, request: CallRequest) -> Result<Begun, Problem> {
        let key = Key {
            session: request.session.clone(),
            call: request.call,
        };
        let (reply, mut answer) = oneshot::channel();
        let job = Job::Begin { request, reply };
        self.jobs.send(job).await.map_err(|_| gone())?;
        let begun = tokio::select! {
            begun = &mut answer => begun,
            () = self.waited_long(WAIT_SECS) => {
                // The keeper decides whether it waits still: a right to run must not be lost.
                self.jobs.send(Job::Unpark { key }).await.map_err(|_| gone())?;
                answer.await
            }
        };
        begun.map_err(|_| gone())?
    }

    /// Returns after this long, and at once when brokerd is to end.
    pub(super) async fn waited_long(&self, secs: u64) {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs(secs)) => {}
            () = self.closing.cancelled() => {}
        }
    }

    /// Has done what is on record to be done elsewhere. It has its own bounds of time.
    async fn send(&self, errand: Errand) -> Output {
        let crashed = || Output::failed(&ToolError::Crashed, Label::BOTTOM);
        match errand {
            // It stays on the box, and has a bound of its own.
            Errand::Remember(call) => match &self.memory {
                Some(memory) => memory.run(call).await,
                // Without one the call was denied.
                None => crashed(),
            },
            Errand::Serve(served) => self.serve(*served).await,
            Errand::Ask(body) => match (&self.consult, self.may_leave().await) {
                (Some(consult), Some(_permit)) => consult.ask(Bytes::from_owner(body)).await,
                (Some(consult), None) => consult.busy(),
                // Without one there is no body either.
                (None, _) => crashed(),
            },
            Errand::Fetch { url, grant } => {
                let grant = grant.and_then(|number| self.grants.get(number.checked_sub(1)?));
                match (grant, self.may_leave().await) {
                    (Some(grant), Some(_permit)) => self.fetcher.fetch(&url, grant).await,
                    (Some(_), None) => Fetcher::busy(),
                    // It is decided under a grant or not at all.
                    (None, _) => crashed(),
                }
            }
        }
    }

    /// The right to leave the box; none if too many have it for too long.
    pub(super) async fn may_leave(&self) -> Option<SemaphorePermit<'_>> {
        place(&self.errands, ERRAND_WAIT).await
    }

    /// Runs a tool on a thread of its own, for a bounded time.
    async fn run(&self, ticket: Ticket) -> Output {
        let began = Instant::now();
        let worst = self.workspaces.whole_label();
        // The semaphore is never closed; if it were, running unbounded would be the wrong answer.
        let Ok(permit) = Arc::clone(&self.tools).acquire_owned().await else {
            return Output::failed(&ToolError::Crashed, worst);
        };
        let workspaces = Arc::clone(&self.workspaces);
        let sandbox = self.sandbox.clone();
        let tool = ticket.tool.spec().name.to_string();
        let limit = ticket.tool.limit(&ticket.arguments);
        let running = tokio::task::spawn_blocking(move || {
            let output = run_blocking(&workspaces, &sandbox, &ticket);
            // A tool that outlives its time keeps its place until it has really ended.
            drop(permit);
            output
        });
        let output = match tokio::time::timeout(limit, running).await {
            Ok(Ok(output)) => output,
            Ok(Err(_)) => Output::failed(&ToolError::Crashed, worst),
            Err(_) => Output::failed(
                &ToolError::TimedOut {
                    secs: limit.as_secs(),
                },
                worst,
            ),
        };
        metrics::histogram!("boxmaker_tool_seconds", "tool" => tool)
            .record(began.elapsed().as_secs_f64());
        fault::point("brokerd.after-run");
        output
    }
}

fn run_blocking(workspaces: &Workspaces, sandbox: &Sandbox, ticket: &Ticket) -> Output {
    let view = match workspaces.of(&ticket.key.session) {
        Ok(view) => view,
        Err(source) => {
            let error = ToolError::System {
                path: ".".to_owned(),
                source,
            };
            return Output::failed(&error, workspaces.whole_label());
        }
    };
    let seconds = Duration::from_secs(TOOL_TIMEOUT_SECS - TOOL_GRACE_SECS);
    ticket.tool.run(&Run {
        arguments: &ticket.arguments,
        session: &ticket.key.session,
        label: ticket.label,
        view: &view,
        sandbox,
        result_bytes: ticket.result_bytes,
        deadline: Instant::now() + seconds,
    })
}

/// A place among so many; none where all are taken for that long.
async fn place(places: &Semaphore, wait: Duration) -> Option<SemaphorePermit<'_>> {
    // Never closed, as `run` says of the other.
    let place = tokio::time::timeout(wait, places.acquire()).await;
    place.ok()?.ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bxcore::code::Code;

    #[tokio::test]
    async fn nobody_waits_for_ever_for_a_place_and_whoever_does_sends_nothing() {
        let places = Semaphore::new(1);
        let taken = place(&places, Duration::ZERO).await;
        assert!(taken.is_some());
        assert!(place(&places, Duration::ZERO).await.is_none());
        drop(taken);
        assert!(place(&places, Duration::ZERO).await.is_some());
        let busy = Fetcher::busy();
        assert_eq!(busy.failure, Some(Code::FetchFailed));
        assert!(busy.text.contains("nothing was sent"), "{}", busy.text);
    }
}
