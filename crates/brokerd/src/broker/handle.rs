//! The async handle on the broker: asks the keeper, runs tools in between.

use super::approving::Approving;
use super::core::Core;
use super::job::{Job, Note, Reply};
use super::keeper::{MAX_QUEUED_JOBS, keep};
use super::mcp::McpJob;
use super::open::Opened;
use crate::approval::Webhook;
use crate::consult::Consult;
use crate::fetch::Fetcher;
use crate::mcp::Servers;
use crate::memory::Memory;
use crate::sandbox::Sandbox;
use crate::secrets::Secrets;
use crate::tools::{Places, Workspaces};
use bxcore::audit::Checkpoint;
use bxcore::code::Code;
use bxcore::grant::Grant;
use bxcore::id::SessionId;
use bxcore::problem::Problem;
use bxcore::tool::ToolSpec;
use bxcore::wire::brokerd::{AuditStatus, Authority, ExplainRequest, Register, Walk};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How many tools run at once; further calls wait.
pub const MAX_TOOLS_AT_ONCE: usize = 16;
/// How many requests leave the box at once; further calls wait.
pub const MAX_ERRANDS_AT_ONCE: usize = 32;
/// How many programs of MCP servers run at once, of all tools: the others keep room.
const MAX_PROGRAMS_AT_ONCE: usize = MAX_TOOLS_AT_ONCE / 2;
/// The broker, for whoever serves its routes. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Broker {
    pub(super) jobs: mpsc::Sender<Job>,
    pub(super) workspaces: Arc<Workspaces>,
    pub(super) grants: Arc<[Grant]>,
    pub(super) audit_folder: Arc<Path>,
    pub(super) places: Arc<Places>,
    pub(super) tools: Arc<Semaphore>,
    pub(super) sandbox: Sandbox,
    pub(super) consult: Option<Consult>,
    pub(super) memory: Option<Memory>,
    pub(super) fetcher: Fetcher,
    pub(super) webhook: Option<Webhook>,
    pub(super) secrets: Secrets,
    pub(super) errands: Arc<Semaphore>,
    pub(super) programs: Arc<Semaphore>,
    pub(super) mcp: Servers,
    pub(super) approval_versions: watch::Receiver<u64>,
    /// Cancelled when brokerd is to end: nobody waits for a person any more.
    pub(super) closing: CancellationToken,
}

impl Broker {
    /// Starts the keeper and gives the handle on it.
    ///
    /// `halt` is called if the audit log can't be written any more. The task ends, with
    /// everything on disk, when the last handle is dropped.
    pub fn start(
        opened: Opened,
        closing: CancellationToken,
        halt: impl FnOnce(Problem) + Send + 'static,
    ) -> (Self, JoinHandle<()>) {
        let (jobs, queue) = mpsc::channel(MAX_QUEUED_JOBS);
        let Opened {
            policy,
            ledger,
            log,
            workspaces,
            sandbox,
            fetcher,
            webhook,
            audit_folder,
            now,
        } = opened;
        let places = workspaces.places();
        let (versions, approval_versions) = watch::channel(0);
        let broker = Self {
            jobs,
            workspaces: Arc::new(workspaces),
            grants: policy.grants.clone().into(),
            audit_folder: audit_folder.into(),
            places: Arc::new(places.clone()),
            tools: Arc::new(Semaphore::new(MAX_TOOLS_AT_ONCE)),
            sandbox,
            consult: policy.consult.clone(),
            memory: policy.memory.clone(),
            fetcher,
            webhook,
            secrets: policy.secrets.clone(),
            errands: Arc::new(Semaphore::new(MAX_ERRANDS_AT_ONCE)),
            programs: Arc::new(Semaphore::new(MAX_PROGRAMS_AT_ONCE)),
            mcp: Arc::clone(policy.mcp.servers()),
            approval_versions,
            closing,
        };
        let approving = Approving::new(versions);
        let keeper = tokio::task::spawn_blocking(move || {
            let core = Core::new(policy, places, ledger, log, approving, now);
            keep(core, queue, halt);
        });
        (broker, keeper)
    }

    /// Makes a session known, or raises its label.
    pub async fn register(&self, id: SessionId, register: Register) -> Result<Authority, Problem> {
        self.ask(|reply| Job::Register {
            id,
            register,
            reply,
        })
        .await
    }

    /// What is held of a session.
    pub async fn authority(&self, id: SessionId) -> Result<Authority, Problem> {
        self.ask(|reply| Job::Authority { id, reply }).await
    }

    /// Forgets the calls of a session that was deleted; its label stays.
    pub async fn forget(&self, id: SessionId) -> Result<(), Problem> {
        self.ask(|reply| Job::Forget { id, reply }).await
    }

    /// The tools that a session's rules let it use.
    pub async fn tools(&self, id: SessionId) -> Result<Vec<ToolSpec>, Problem> {
        self.ask(|reply| Job::Tools { id, reply }).await
    }

    /// What a decision would be.
    pub async fn explain(&self, request: ExplainRequest) -> Result<Walk, Problem> {
        self.ask(|reply| Job::Explain { request, reply }).await
    }

    /// The owner's grants, in the order of the file.
    pub fn grants(&self) -> &[Grant] {
        &self.grants
    }

    /// The tools that run here, whatever any session may use.
    pub async fn every_tool(&self) -> Result<Vec<ToolSpec>, Problem> {
        self.ask(|reply| Job::Mcp(McpJob::Specs { reply })).await
    }

    /// The head of the audit log.
    pub async fn audit_status(&self) -> Result<AuditStatus, Problem> {
        self.ask(|reply| Job::Status { reply }).await
    }

    /// Signs the log as it is.
    pub async fn checkpoint(&self) -> Result<Checkpoint, Problem> {
        self.ask(|reply| Job::Checkpoint { reply }).await
    }

    pub(super) fn webhook(&self) -> Option<&Webhook> {
        self.webhook.as_ref()
    }

    pub(super) fn approval_versions(&self) -> watch::Receiver<u64> {
        self.approval_versions.clone()
    }

    pub(super) async fn write_note(&self, note: Note) -> Result<u64, Problem> {
        self.ask(|reply| Job::Note {
            note: Box::new(note),
            reply,
        })
        .await
    }

    pub(super) fn audit_folder(&self) -> PathBuf {
        self.audit_folder.to_path_buf()
    }

    pub(super) fn places(&self) -> &Places {
        &self.places
    }

    pub(super) async fn ask<T>(&self, job: impl FnOnce(Reply<T>) -> Job) -> Result<T, Problem> {
        let (reply, answer) = oneshot::channel();
        self.jobs.send(job(reply)).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}

pub(super) fn gone() -> Problem {
    Problem::new(Code::RoleUnreachable, "brokerd is ending").hint("try again in a moment")
}
