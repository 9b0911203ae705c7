//! A conversation with a server. The one place that knows the SDK's client.

use super::answer::Called;
use super::failure::McpFailure;
use super::listing::read_list;
use super::text::ToolText;
use super::transport::Noted;
use bxcore::id::McpServerName;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ClientCapabilities, Implementation,
    InitializeRequestParams, ProtocolVersion,
};
use rmcp::service::{ClientInitializeError, RunningService};
use rmcp::transport::Transport;
use rmcp::{ClientHandler, RoleClient, ServiceError, serve_client};
use serde_json::{Map, Value};
use std::sync::Arc;

/// What a server is asked, once it is greeted.
pub(super) trait Conversation {
    /// What tools it has.
    async fn tools(&self, server: &McpServerName) -> Result<Vec<ToolText>, McpFailure>;

    /// Calls a tool.
    async fn call(&self, tool: &str, arguments: Map<String, Value>) -> Result<Called, McpFailure>;
}

/// The first versions with a greeting, and the last.
const VERSIONS: &[ProtocolVersion] = &[
    ProtocolVersion::V_2024_11_05,
    ProtocolVersion::V_2025_03_26,
    ProtocolVersion::V_2025_06_18,
    ProtocolVersion::V_2025_11_25,
];

/// Who we are; we offer nothing, so that a server has nothing to ask us for.
#[derive(Debug, Clone, Copy)]
struct Caller;

impl ClientHandler for Caller {
    fn get_info(&self) -> InitializeRequestParams {
        let name = Implementation::new("boxmaker", env!("CARGO_PKG_VERSION"));
        InitializeRequestParams::new(ClientCapabilities::default(), name)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }
}

/// A conversation by the SDK. Dropping it closes the connection.
#[derive(Debug)]
pub(super) struct Sdk {
    running: RunningService<RoleClient, Caller>,
    noted: Arc<Noted>,
}

impl Sdk {
    /// Greets a server.
    pub(super) async fn greet<T>(transport: T, noted: Arc<Noted>) -> Result<Self, McpFailure>
    where
        T: Transport<RoleClient, Error = std::io::Error> + 'static,
    {
        let running = serve_client(Caller, transport).await;
        let running =
            running.map_err(|error| noted.take_failure().unwrap_or_else(|| greeting(&error)))?;
        let version = running
            .peer_info()
            .map(|info| info.protocol_version.clone());
        if !version.is_some_and(|version| VERSIONS.contains(&version)) {
            return Err(McpFailure::Version);
        }
        Ok(Self { running, noted })
    }

    fn failed(&self, error: &ServiceError) -> McpFailure {
        self.noted.take_failure().unwrap_or_else(|| match error {
            ServiceError::McpError(error) => McpFailure::Refused {
                code: error.code.0.into(),
            },
            ServiceError::TransportClosed => McpFailure::ended(),
            _ => McpFailure::Unexpected,
        })
    }
}

fn greeting(error: &ClientInitializeError) -> McpFailure {
    match error {
        ClientInitializeError::JsonRpcError(error) => McpFailure::Refused {
            code: error.code.0.into(),
        },
        ClientInitializeError::ConnectionClosed(_)
        | ClientInitializeError::TransportError { .. } => McpFailure::ended(),
        ClientInitializeError::NoCompatibleProtocolVersion { .. } => McpFailure::Version,
        _ => McpFailure::Unexpected,
    }
}

impl Conversation for Sdk {
    async fn tools(&self, server: &McpServerName) -> Result<Vec<ToolText>, McpFailure> {
        let listed = self.running.peer().list_tools(None).await;
        // What counts are the bytes that came, and not what the SDK made of them.
        match (self.noted.take_list(), listed) {
            (Some(message), Ok(_) | Err(ServiceError::UnexpectedResponse)) => {
                read_list(server, &message)
            }
            (_, Err(error)) => Err(self.failed(&error)),
            (None, Ok(_)) => Err(McpFailure::Unexpected),
        }
    }

    async fn call(&self, tool: &str, arguments: Map<String, Value>) -> Result<Called, McpFailure> {
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        match self.running.peer().call_tool_once(params).await {
            Ok(CallToolResponse::Complete(result)) => Ok(Called::of(&result)),
            Ok(_) => Err(McpFailure::Unexpected),
            Err(ServiceError::McpError(error)) => Ok(Called::refused(&error)),
            Err(error) => Err(self.failed(&error)),
        }
    }
}
