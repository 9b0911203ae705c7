//! A server: asked for its tools, or for one of them to be called. One connection each time.

use super::answer::Called;
use super::bodies::opening;
use super::conversation::{Conversation, Sdk};
use super::error::McpError;
use super::failure::McpFailure;
use super::limits::GRACE_SECS;
use super::limits::MAX_SAID_BYTES;
use super::schema::check_schema;
use super::settings::Settings;
use super::text::ToolText;
use super::transport::{Lines, Noted, Posts, Sender};
use crate::decision::Judged;
use crate::egress::{Client, reach};
use crate::sandbox::{Ran, Sandbox, SandboxError, Service, Serving};
use crate::secrets::{SecretName, Secrets};
use bxcore::id::{McpServerName, SessionId};
use bxcore::tool::{Repeat, ToolName, ToolSpec};
use bytes::Bytes;
use rmcp::RoleClient;
use rmcp::transport::Transport;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// The servers that are configured, by name. Cheap to clone.
pub type Servers = Arc<BTreeMap<McpServerName, Server>>;

/// Everything that connections to one server need. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Server {
    settings: Arc<Settings>,
    /// What sends; none for a program in the sandbox.
    client: Option<Client>,
    secrets: Secrets,
}

/// A call to make.
#[derive(Debug, Clone)]
pub struct Order {
    /// The tool's own name.
    pub tool: String,
    /// Its arguments.
    pub arguments: Map<String, Value>,
    /// What the owner trusts.
    pub sha256: String,
    /// The session that calls.
    pub session: SessionId,
    /// The exact bytes that are on record, where they are sent to a service.
    pub body: Option<Bytes>,
}

/// What came of a connection.
#[derive(Debug)]
pub struct Done {
    /// The tools that the server has, if it came as far as to say so.
    pub seen: Option<Vec<ToolText>>,
    /// What the called tool gave; none where none was called.
    pub outcome: Result<Option<Called>, McpFailure>,
}

impl From<McpFailure> for Done {
    fn from(failure: McpFailure) -> Self {
        Self {
            seen: None,
            outcome: Err(failure),
        }
    }
}

impl Server {
    /// Makes all of them ready: certificates are read now, since later there is no right to.
    ///
    /// # Errors
    /// There are no certificates to check one's against.
    pub fn all(settings: &[Settings], secrets: &Secrets) -> Result<Servers, McpError> {
        let ready = settings.iter().map(|settings| {
            let name = settings.name.clone();
            let reached = |url| reach(url, settings.ca_file.as_deref());
            let client = settings.url.as_ref().map(reached).transpose();
            let server = Self {
                settings: Arc::new(settings.clone()),
                client: client.map_err(|source| McpError::Roots {
                    name: name.clone(),
                    source,
                })?,
                secrets: secrets.clone(),
            };
            Ok((name, server))
        });
        ready.collect::<Result<_, _>>().map(Arc::new)
    }

    /// What the owner configured.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The secret that it needs.
    pub fn secret(&self) -> Option<&SecretName> {
        self.settings.secret.as_ref()
    }

    /// A tool of it as decisions see it.
    ///
    /// # Errors
    /// Why it can't be used.
    pub fn judged(&self, text: &ToolText) -> Result<Judged, String> {
        let name = ToolName::of_mcp(&self.settings.name, &text.name);
        let name = name.map_err(|error| error.to_string())?;
        let (parameters, schema) = check_schema(&text.schema)?;
        let spec = ToolSpec {
            name,
            description: text.description.clone(),
            parameters,
            tags: self.settings.tags(),
            repeat: Repeat::Never,
            reserve: None,
        };
        Ok(Judged { spec, schema })
    }

    /// Asks what tools it has.
    pub async fn look(&self, sandbox: &Sandbox) -> Done {
        self.meet(sandbox, None).await
    }

    /// Calls a tool, if it is what the owner trusts.
    pub async fn call(&self, sandbox: &Sandbox, order: Order) -> Done {
        self.meet(sandbox, Some(order)).await
    }

    async fn meet(&self, sandbox: &Sandbox, order: Option<Order>) -> Done {
        let done = match &self.client {
            // A conversation's state is large, and most calls have none.
            Some(client) => Box::pin(self.over_network(client, order)).await,
            None => Box::pin(self.in_sandbox(sandbox, order)).await,
        };
        let done = done.unwrap_or_else(Done::from);
        if let Err(failure) = &done.outcome {
            metrics::counter!("boxmaker_mcp_failures_total", "class" => failure.class())
                .increment(1);
        }
        done
    }

    async fn over_network(
        &self,
        client: &Client,
        order: Option<Order>,
    ) -> Result<Done, McpFailure> {
        let bearer = match self.secret() {
            None => None,
            Some(name) => {
                let secret = self.secrets.get(name);
                Some(secret.ok_or(McpFailure::NoSecret)?)
            }
        };
        let noted = Arc::<Noted>::default();
        let sender = Sender {
            client: client.clone(),
            bearer,
            bodies: opening()
                .into_iter()
                .map(Bytes::from)
                .chain(order.as_ref().and_then(|order| order.body.clone()))
                .collect(),
            within_ms: self.settings.start_ms.max(self.settings.call_ms),
        };
        let posts = Posts::new(sender, Arc::clone(&noted));
        Ok(self.talk(posts, noted, order).await)
    }

    async fn in_sandbox(
        &self,
        sandbox: &Sandbox,
        order: Option<Order>,
    ) -> Result<Done, McpFailure> {
        let session = order.as_ref().map(|order| order.session.clone());
        let limit_secs = (self.settings.start_ms + self.settings.call_ms).div_ceil(1000);
        let service = Service {
            program: self.settings.name.to_string(),
            session: session.filter(|_| self.settings.workspace),
            timeout_secs: limit_secs + GRACE_SECS,
        };
        let sandbox = sandbox.clone();
        let mut serving = blocking(move || sandbox.serve(&service)).await?;
        let noted = Arc::<Noted>::default();
        let mut done = match wire(&mut serving) {
            Ok(wire) => {
                let lines = Lines::new(wire, Arc::clone(&noted));
                self.talk(lines, noted, order).await
            }
            Err(error) => McpFailure::from(error).into(),
        };
        match (blocking(move || serving.end()).await, &done.outcome) {
            // A program that may still run has not done what it says, as far as anybody can tell.
            (Err(failure), _) => {
                tracing::error!(server = %self.settings.name, %failure, "a program may not have ended");
                done.outcome = Err(failure);
            }
            (Ok(ran), Err(McpFailure::Ended { .. })) => {
                done.outcome = Err(McpFailure::Ended { said: said(&ran) });
            }
            (Ok(_), _) => {}
        }
        Ok(done)
    }

    async fn talk<T>(&self, transport: T, noted: Arc<Noted>, order: Option<Order>) -> Done
    where
        T: Transport<RoleClient, Error = io::Error> + 'static,
    {
        let settings = &self.settings;
        let begin = async {
            let conversation = Sdk::greet(transport, noted).await?;
            let tools = conversation.tools(&settings.name).await?;
            // What it says of its tools is kept, and read by models.
            if tools.iter().any(|tool| self.holds_secret(tool)) {
                return Err(McpFailure::Secret);
            }
            Ok((conversation, tools))
        };
        let begun = within(settings.start_ms, "start and say what tools it has", begin).await;
        let (conversation, seen) = match begun {
            Ok(begun) => begun,
            Err(failure) => return failure.into(),
        };
        let outcome = match order {
            None => Ok(None),
            Some(order) if !is_trusted(&seen, &order) => Err(McpFailure::Changed(order.tool)),
            Some(order) => {
                let call = conversation.call(&order.tool, order.arguments);
                within(settings.call_ms, "do what was called for", call)
                    .await
                    .map(Some)
            }
        };
        Done {
            seen: Some(seen),
            outcome,
        }
    }
}

impl Server {
    /// Whether a secret that it was sent, or any other, stands in what it says of a tool.
    fn holds_secret(&self, tool: &ToolText) -> bool {
        let texts = [&tool.name, &tool.description, &tool.schema];
        texts
            .into_iter()
            .any(|text| self.secrets.came_back(text.as_bytes()))
    }
}

fn is_trusted(seen: &[ToolText], order: &Order) -> bool {
    let mut named = seen.iter().filter(|text| text.name == order.tool);
    named.any(|text| text.sha256() == order.sha256)
}

async fn within<T>(
    ms: u64,
    what: &'static str,
    doing: impl Future<Output = Result<T, McpFailure>>,
) -> Result<T, McpFailure> {
    match tokio::time::timeout(Duration::from_millis(ms), doing).await {
        Ok(done) => done,
        Err(_) => Err(McpFailure::TimedOut { what, ms }),
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SandboxError> + Send + 'static,
) -> Result<T, McpFailure> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(McpFailure::from),
        Err(error) => Err(SandboxError::Launcher(io::Error::other(error)).into()),
    }
}

fn wire(serving: &mut Serving) -> Result<tokio::net::UnixStream, SandboxError> {
    let wire = serving.take_wire().ok_or(io::ErrorKind::NotConnected);
    let wire = wire.map_err(io::Error::from).and_then(|wire| {
        wire.set_nonblocking(true)?;
        tokio::net::UnixStream::from_std(wire)
    });
    wire.map_err(SandboxError::Launcher)
}

/// What a program said beside its output, and how it ended, for the owner.
fn said(ran: &Ran) -> String {
    let all = [ran.head.as_slice(), &ran.tail].concat();
    let all = String::from_utf8_lossy(&all);
    let text = all.trim();
    let start = text.ceil_char_boundary(text.len().saturating_sub(MAX_SAID_BYTES));
    format!("{:?}; {}", ran.ended, &text[start..])
}
