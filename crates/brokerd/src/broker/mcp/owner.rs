//! The owner's word on tools of MCP servers. On record first, and only then in force.

use super::keep::McpJob;
use crate::audit::{Decided, Ended};
use crate::broker::handle::Broker;
use crate::broker::job::{Job, Note, OwnedRecord};
use crate::mcp::{Done, MAX_TOOLS, McpFailure, Place, Server, opening};
use bxcore::audit::Kind;
use bxcore::code::Code;
use bxcore::id::McpServerName;
use bxcore::problem::Problem;
use bxcore::wire::mcp::{McpChanged, McpServer, McpTrust, McpUntrust};
use serde_json::{Value, json};

/// What the name begins with under which asking a server is on record.
const LOOK: &str = "mcp:look:";
/// The name under which the owner's word on tools is.
const TRUST: &str = "mcp:trust";

impl Broker {
    /// What is known of the servers, without asking them.
    pub async fn mcp_servers(&self) -> Result<Vec<McpServer>, Problem> {
        self.ask(|reply| Job::Mcp(McpJob::List { reply })).await
    }

    /// Asks a server what tools it has.
    ///
    /// # Errors
    /// There is no such server, or it can't be asked: the class of the failure.
    pub async fn mcp_look(&self, name: McpServerName) -> Result<McpServer, Problem> {
        let server = self.mcp.get(&name).cloned();
        let server = server.ok_or_else(|| unknown_server(&name))?;
        let broker = self.clone();
        // Whoever awaits this may go away: what began is recorded to its end.
        let looking = tokio::spawn(async move {
            let intent = broker.write_note(looking(&name, &server)).await?;
            let done = broker.meet(&server, None).await;
            broker.write_note(looked(intent, &name, &done)).await?;
            match (done.seen, done.outcome) {
                (Some(tools), Ok(_)) => {
                    let see = |reply| McpJob::See {
                        server: name,
                        tools,
                        reply,
                    };
                    broker.ask(|reply| Job::Mcp(see(reply))).await
                }
                (_, Err(failure)) => Err(failed(&name, &failure)),
                (None, Ok(_)) => Err(failed(&name, &McpFailure::Unexpected)),
            }
        });
        looking.await.map_err(|_| broke_off())?
    }

    /// Trusts tools as they were seen last, if that is what the owner has read.
    ///
    /// # Errors
    /// They are not what the owner has read, or it can't be put on record.
    pub async fn mcp_trust(
        &self,
        server: McpServerName,
        trust: McpTrust,
    ) -> Result<McpChanged, Problem> {
        if trust.tools.is_empty() || trust.tools.len() > MAX_TOOLS {
            let title = format!("1 to {MAX_TOOLS} tools can be trusted at once");
            return Err(Problem::new(Code::BadRequest, title));
        }
        let broker = self.clone();
        // Whoever awaits this may go away: what is on record comes into force.
        let trusting = tokio::spawn(async move { broker.trust(server, trust).await });
        trusting.await.map_err(|_| broke_off())?
    }

    async fn trust(&self, server: McpServerName, trust: McpTrust) -> Result<McpChanged, Problem> {
        let pins = trust.tools.clone();
        let name = server.clone();
        let find = |reply| {
            Job::Mcp(McpJob::Find {
                server: name,
                pins,
                reply,
            })
        };
        let texts = self.ask(find).await?;
        let body = json!({"server": server, "trusted": trust.tools});
        let audit = self.write_note(said(&body)).await?;
        let tools = trust.tools.into_iter().map(|pin| pin.name).collect();
        let trust = |reply| {
            Job::Mcp(McpJob::Trust {
                server,
                texts,
                audit,
                reply,
            })
        };
        self.ask(trust).await?;
        Ok(McpChanged {
            tools,
            audit: Some(audit),
        })
    }

    /// Trusts a tool no more, or none of a server's.
    ///
    /// # Errors
    /// There is no such server, or it can't be put on record.
    pub async fn mcp_untrust(
        &self,
        server: McpServerName,
        untrust: McpUntrust,
    ) -> Result<McpChanged, Problem> {
        let broker = self.clone();
        // Whoever awaits this may go away: it goes to its end.
        let dropping = tokio::spawn(async move { broker.untrust(server, untrust).await });
        dropping.await.map_err(|_| broke_off())?
    }

    /// Out of force first, and then on record: dying in between leaves less trust and not more.
    async fn untrust(
        &self,
        server: McpServerName,
        untrust: McpUntrust,
    ) -> Result<McpChanged, Problem> {
        let name = server.clone();
        let trusted = |reply| {
            Job::Mcp(McpJob::Trusted {
                server: name,
                reply,
            })
        };
        let mut tools = self.ask(trusted).await?;
        if let Some(tool) = untrust.tool {
            tools.retain(|name| *name == tool);
        }
        if tools.is_empty() {
            if !self.mcp.contains_key(&server) {
                return Err(unknown_server(&server));
            }
            return Ok(McpChanged { tools, audit: None });
        }
        let body = json!({"server": server, "untrusted": tools});
        let dropped = tools.clone();
        let untrust = |reply| {
            Job::Mcp(McpJob::Untrust {
                server,
                tools: dropped,
                reply,
            })
        };
        self.ask(untrust).await?;
        let audit = self.write_note(said(&body)).await?;
        Ok(McpChanged {
            tools,
            audit: Some(audit),
        })
    }
}

fn broke_off() -> Problem {
    Problem::new(Code::Internal, "The work on the server's tools broke off")
}

pub(super) fn unknown_server(name: &McpServerName) -> Problem {
    Problem::new(Code::NotFound, format!("There is no MCP server `{name}`"))
        .hint("servers are the `[[mcp]]` of brokerd.toml")
}

fn failed(name: &McpServerName, failure: &McpFailure) -> Problem {
    let title = format!(
        "The MCP server `{name}` can't be used ({})",
        failure.class()
    );
    let mut detail = bxkit::report::chain(failure);
    if let Some(said) = failure.said() {
        detail.push_str(": ");
        detail.push_str(said);
    }
    Problem::new(failure.code(), title).detail(detail)
}

/// That the owner has said something of tools.
fn said(body: &Value) -> Note {
    Note {
        kind: Kind::Config,
        record: OwnedRecord {
            tool: Some(TRUST.to_owned()),
            body: Some(body.to_string().into()),
            ..OwnedRecord::default()
        },
    }
}

/// That a server is asked, with all that is sent to it where it is elsewhere.
fn looking(name: &McpServerName, server: &Server) -> Note {
    let body = match server.settings().place() {
        Place::Network(_) => opening().join("\n"),
        Place::Sandbox => String::new(),
    };
    Note {
        kind: Kind::Intent,
        record: OwnedRecord {
            tool: Some(format!("{LOOK}{name}")),
            decision: Some(Decided::Allow),
            body: Some(body.into()),
            ..OwnedRecord::default()
        },
    }
}

fn looked(intent: u64, name: &McpServerName, done: &Done) -> Note {
    let (outcome, reason) = match &done.outcome {
        Ok(_) => (Ended::Ok, None),
        Err(failure) => (Ended::Failed, Some(failure.code())),
    };
    let tools = done.seen.iter().flatten();
    let hashes = tools.map(|text| json!({"name": text.name, "sha256": text.sha256()}));
    let body = match &done.outcome {
        Ok(_) => Value::Array(hashes.collect()),
        Err(failure) => Value::String(failure.class().to_owned()),
    };
    Note {
        kind: Kind::Outcome,
        record: OwnedRecord {
            intent: Some(intent),
            outcome: Some(outcome),
            tool: Some(format!("{LOOK}{name}")),
            reason,
            body: Some(body.to_string().into()),
            ..OwnedRecord::default()
        },
    }
}
