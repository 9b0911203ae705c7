//! Calls to brokerd: labels and tool calls.

use bxcore::id::SessionId;
use bxcore::tool::ToolSpec;
use bxcore::wire::brokerd::{Authority, CallRequest, CallResult, Register};
use bxkit::rpc::{CallError, Client};
use std::time::Duration;

/// How long a tool call may take: the longest that brokerd lets a tool run, and some.
const TOOL_TIMEOUT: Duration = Duration::from_mins(15);
/// How long everything else may take.
const QUICK_TIMEOUT: Duration = Duration::from_secs(30);

/// Calls brokerd. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Broker {
    quick: Client,
    tools: Client,
}

impl Broker {
    /// Over this client of brokerd's socket.
    pub fn new(client: Client) -> Self {
        Self {
            quick: client.clone().timeout(QUICK_TIMEOUT),
            tools: client.timeout(TOOL_TIMEOUT),
        }
    }

    /// Makes a session known, or raises its label.
    pub async fn register(
        &self,
        session: &SessionId,
        register: &Register,
    ) -> Result<Authority, CallError> {
        self.quick
            .put(&format!("/v1/sessions/{session}"), register)
            .await
    }

    /// The tools that a session may use.
    pub async fn tools(&self, session: &SessionId) -> Result<Vec<ToolSpec>, CallError> {
        self.quick
            .get(&format!("/v1/sessions/{session}/tools"))
            .await
    }

    /// Has a tool call decided and run.
    pub async fn call(&self, request: &CallRequest) -> Result<CallResult, CallError> {
        self.tools.post("/v1/calls", request).await
    }

    /// Has brokerd forget a deleted session's calls; the session's label stays.
    pub async fn forget(&self, session: &SessionId) -> Result<(), CallError> {
        self.quick.delete(&format!("/v1/sessions/{session}")).await
    }

    /// Waits until brokerd answers.
    pub async fn wait_ready(&self, within: Duration) -> Result<(), CallError> {
        self.quick.wait_ready(within).await.map(drop)
    }
}
