//! The way to memoryd.

use super::{MemoryCall, MemoryTool, notes, question, recall};
use crate::tools::{Output, ToolError};
use bxcore::code::Code;
use bxcore::label::Label;
use bxcore::problem::Problem;
use bxkit::rpc::{CallError, Client};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// How many calls are at memoryd at once; further ones wait.
pub const MAX_MEMORY_CALLS_AT_ONCE: usize = 16;
/// How long memoryd may take for an answer.
pub const MEMORY_TIMEOUT_SECS: u64 = 30;
/// How long memoryd may take to come back where it went away.
const RETURN_WITHIN: Duration = Duration::from_secs(30);

/// Calls memoryd. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Memory {
    client: Client,
    at_once: Arc<Semaphore>,
}

/// Whether a request may be sent again when its answer was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Again {
    May,
    Never,
}

impl Memory {
    /// Over this client of memoryd's socket.
    pub fn new(client: Client) -> Self {
        Self {
            client: client.timeout(Duration::from_secs(MEMORY_TIMEOUT_SECS)),
            at_once: Arc::new(Semaphore::new(MAX_MEMORY_CALLS_AT_ONCE)),
        }
    }

    /// Has a call done.
    pub async fn run(&self, call: MemoryCall) -> Output {
        // The semaphore is never closed; if it were, running unbounded would be the wrong answer.
        let Ok(_permit) = self.at_once.acquire().await else {
            return Output::failed(&ToolError::Crashed, Label::BOTTOM);
        };
        match call.tool {
            MemoryTool::Recall => recall::run(self, call).await,
            MemoryTool::Notes => notes::run(self, call).await,
            MemoryTool::Question => question::run(self, call).await,
        }
    }

    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, CallError> {
        match self.client.get(path).await {
            Err(error) if self.is_back(&error, Again::May).await => self.client.get(path).await,
            answer => answer,
        }
    }

    pub(super) async fn post<B: Serialize, T: DeserializeOwned>(
        &self,
        path: &str,
        body: &B,
        again: Again,
    ) -> Result<T, CallError> {
        match self.client.post(path, body).await {
            Err(error) if self.is_back(&error, again).await => self.client.post(path, body).await,
            answer => answer,
        }
    }

    /// Whether memoryd was away and is back, so that it can be asked once more.
    async fn is_back(&self, error: &CallError, again: Again) -> bool {
        let was_away = match error {
            CallError::Unreachable { .. } => true,
            CallError::Broken { .. } => again == Again::May,
            CallError::Refused(_) => false,
        };
        was_away && self.client.wait_ready(RETURN_WITHIN).await.is_ok()
    }
}

/// What a session is told of a failure, and what that tells it.
pub(super) fn failed(error: &CallError) -> Output {
    let problem = error.problem();
    let label = match problem.code {
        // These tell of the call alone.
        Code::MemoryEntryUnknown | Code::MemoryFull | Code::UntrustedSession => Label::BOTTOM,
        // Others tell of the owner's files and folders.
        _ => Label::OWNER,
    };
    Output {
        failure: Some(problem.code),
        ..Output::ok(told(&problem), label)
    }
}

fn told(problem: &Problem) -> String {
    match &problem.hint {
        Some(hint) => format!("{problem} ({hint})"),
        None => problem.to_string(),
    }
}
