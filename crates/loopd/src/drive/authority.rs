//! Calls to brokerd: labels and tool calls.

use super::catalogs::Catalogs;
use super::inference::Inference;
use crate::delegation;
use crate::tools::Catalog;
use bxcore::audit::sha256_hex;
use bxcore::code::Code;
use bxcore::id::SessionId;
use bxcore::problem::Problem;
use bxcore::tool::ToolSpec;
use bxcore::wire::approval::Withdraw;
use bxcore::wire::brokerd::{
    Authority, CALL_TIMEOUT_SECS, CallAnswer, CallRequest, CallResult, ExplainRequest, Register,
    Walk,
};
use bxcore::wire::provider::ProviderInfo;
use bxkit::rpc::{CallError, Client};
use serde_json::value::RawValue;
use std::sync::Arc;
use std::time::Duration;

/// How long a tool call may take.
const TOOL_TIMEOUT: Duration = Duration::from_secs(CALL_TIMEOUT_SECS);
/// How long everything else may take.
const QUICK_TIMEOUT: Duration = Duration::from_secs(30);

/// Calls brokerd. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Broker {
    quick: Client,
    tools: Client,
    models: Inference,
    catalogs: Catalogs,
}

impl Broker {
    /// Over this client of brokerd's socket.
    pub fn new(client: Client) -> Self {
        Self {
            quick: client.clone().timeout(QUICK_TIMEOUT),
            models: Inference::new(client.clone()),
            tools: client.timeout(TOOL_TIMEOUT),
            catalogs: Catalogs::default(),
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

    /// The tools that a session may use, whose list at brokerd has this hash: asked for once a list.
    /// `delegates` says whether it may have helpers.
    pub async fn catalog(
        &self,
        session: &SessionId,
        tools_sha256: &str,
        delegates: bool,
    ) -> Result<Arc<Catalog>, CallError> {
        // The same list of brokerd's makes another catalogue where helpers are offered.
        let key = format!("{tools_sha256} {delegates}");
        if let Some(known) = self.catalogs.get(&key) {
            return Ok(known);
        }
        let path = format!("/v1/sessions/{session}/tools");
        let listed: Box<RawValue> = self.quick.get(&path).await?;
        let mut tools: Vec<ToolSpec> = serde_json::from_str(listed.get()).map_err(|error| {
            let title = "brokerd's list of tools can't be read";
            CallError::Refused(Problem::new(Code::Internal, title).detail(error.to_string()))
        })?;
        tools.extend(delegation::subagent().filter(|_| delegates));
        let catalog = Arc::new(Catalog::new(tools));
        // brokerd may have been started anew in between, with another list.
        if sha256_hex(listed.get().as_bytes()) == tools_sha256 {
            self.catalogs.keep(&key, &catalog);
        }
        Ok(catalog)
    }

    /// The way to providers, which brokerd sends to.
    pub fn models(&self) -> &Inference {
        &self.models
    }

    /// What providers there are.
    pub async fn providers(&self) -> Result<Vec<ProviderInfo>, CallError> {
        self.quick.get("/v1/providers").await
    }

    /// What is held of a session.
    pub async fn held(&self, session: &SessionId) -> Result<Authority, CallError> {
        self.quick.get(&format!("/v1/sessions/{session}")).await
    }

    /// What a decision would be.
    pub async fn explain(&self, request: &ExplainRequest) -> Result<Walk, CallError> {
        self.quick.post("/v1/explain", request).await
    }

    /// Has a tool call decided and run, unless it waits for the owner.
    pub async fn call(&self, request: &CallRequest) -> Result<CallAnswer, CallError> {
        self.tools.post("/v1/calls", request).await
    }

    /// Ends the wait of a call for the owner; gives its result if it waited.
    pub async fn withdraw(&self, withdraw: &Withdraw) -> Result<Option<CallResult>, CallError> {
        self.quick.post("/v1/calls/withdraw", withdraw).await
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
