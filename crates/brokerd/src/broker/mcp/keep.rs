//! What the keeper does for MCP servers: the ledger first, and then what decisions are made by.

use super::book::Book;
use super::owner::unknown_server;
use crate::broker::core::{Batch, Core, Fault};
use crate::broker::job::Reply;
use crate::broker::register::Listed;
use crate::mcp::ToolText;
use crate::provider::Provider;
use bxcore::code::Code;
use bxcore::id::McpServerName;
use bxcore::problem::Problem;
use bxcore::tool::{ToolSpec, is_loopds_own};
use bxcore::wire::mcp::{McpPin, McpServer};

/// What the keeper is asked to do.
pub(in crate::broker) enum McpJob {
    /// Everything that a grant can be for, or that needs none.
    Specs { reply: Reply<Vec<ToolSpec>> },
    /// What is known of all servers.
    List { reply: Reply<Vec<McpServer>> },
    /// A server has these tools.
    See {
        server: McpServerName,
        tools: Vec<ToolText>,
        reply: Reply<McpServer>,
    },
    /// The texts of tools, if they are what the owner has read.
    Find {
        server: McpServerName,
        pins: Vec<McpPin>,
        reply: Reply<Vec<ToolText>>,
    },
    /// These are trusted from now on, as is on record.
    Trust {
        server: McpServerName,
        texts: Vec<ToolText>,
        audit: u64,
        reply: Reply<()>,
    },
    /// The names of the tools that are trusted.
    Trusted {
        server: McpServerName,
        reply: Reply<Vec<String>>,
    },
    /// These are trusted no more.
    Untrust {
        server: McpServerName,
        tools: Vec<String>,
        reply: Reply<()>,
    },
}

impl McpJob {
    /// Answers it where its batch is spoiled.
    pub(in crate::broker) fn refuse(self, problem: &Problem) {
        fn tell<T>(reply: Reply<T>, problem: &Problem) {
            // Whoever asked may be gone.
            let _ = reply.send(Err(problem.clone()));
        }
        match self {
            Self::Specs { reply } => tell(reply, problem),
            Self::List { reply } => tell(reply, problem),
            Self::See { reply, .. } => tell(reply, problem),
            Self::Find { reply, .. } => tell(reply, problem),
            Self::Trusted { reply, .. } => tell(reply, problem),
            Self::Trust { reply, .. } | Self::Untrust { reply, .. } => tell(reply, problem),
        }
    }
}

impl Core {
    /// Does a job for MCP servers.
    pub(in crate::broker) fn mcp(&mut self, job: McpJob, batch: &mut Batch) -> Result<(), Problem> {
        let book = &self.policy.mcp;
        match job {
            McpJob::Specs { reply } => {
                let specs = self.all_specs();
                batch.give(reply, Ok(specs))
            }
            McpJob::List { reply } => {
                let shown = book.servers().keys().filter_map(|name| book.shown(name));
                batch.give(reply, Ok(shown.collect()))
            }
            McpJob::Find {
                server,
                pins,
                reply,
            } => batch.give(reply, find(book, &server, &pins)),
            McpJob::Trusted { server, reply } => {
                let names = book.pinned_names(&server);
                batch.give(reply, Ok(names))
            }
            McpJob::See {
                server,
                tools,
                reply,
            } => self.see(server, tools, reply, batch),
            McpJob::Trust {
                server,
                texts,
                audit,
                reply,
            } => self.trust(server, texts, audit, reply, batch),
            McpJob::Untrust {
                server,
                tools,
                reply,
            } => self.untrust(server, tools, reply, batch),
        }
    }

    fn all_specs(&self) -> Vec<ToolSpec> {
        let tools = self.policy.tools.specs().into_iter();
        let tools = tools.filter(|tool| !is_loopds_own(tool.name.as_str()));
        let providers = self.policy.providers.values().map(Provider::spec);
        tools.chain(providers).cloned().collect()
    }

    fn see(
        &mut self,
        server: McpServerName,
        tools: Vec<ToolText>,
        reply: Reply<McpServer>,
        batch: &mut Batch,
    ) -> Result<(), Problem> {
        let book = &self.policy.mcp;
        if book.has(&server, &tools) {
            let shown = book.shown(&server).ok_or_else(|| unknown_server(&server));
            return batch.give(reply, shown.map_err(Fault::Request));
        }
        let kept = self.writing(batch);
        let kept = kept.and_then(|()| self.ledger.put_mcp_seen(&server, &tools));
        if let Err(error) = kept {
            return batch.give(reply, Err(error.into()));
        }
        batch.after(move |core, done| {
            let shown = done.clone().and_then(|()| {
                core.rebook(|book| book.see(server.clone(), tools));
                let shown = core.policy.mcp.shown(&server);
                shown.ok_or_else(|| unknown_server(&server))
            });
            let _ = reply.send(shown);
        });
        Ok(())
    }

    fn trust(
        &mut self,
        server: McpServerName,
        texts: Vec<ToolText>,
        audit: u64,
        reply: Reply<()>,
        batch: &mut Batch,
    ) -> Result<(), Problem> {
        let kept = self.writing(batch).and_then(|()| {
            texts
                .iter()
                .try_for_each(|text| self.ledger.put_mcp_pin(&server, text, audit))
        });
        if let Err(error) = kept {
            return batch.give(reply, Err(error.into()));
        }
        batch.after(move |core, done| {
            if done.is_ok() {
                core.rebook(|book| {
                    for text in texts {
                        book.pin(server.clone(), text);
                    }
                });
            }
            let _ = reply.send(done.clone());
        });
        Ok(())
    }

    fn untrust(
        &mut self,
        server: McpServerName,
        tools: Vec<String>,
        reply: Reply<()>,
        batch: &mut Batch,
    ) -> Result<(), Problem> {
        let dropped = self.writing(batch).and_then(|()| {
            tools
                .iter()
                .try_for_each(|tool| self.ledger.drop_mcp_pin(&server, tool))
        });
        if let Err(error) = dropped {
            return batch.give(reply, Err(error.into()));
        }
        batch.after(move |core, done| {
            if done.is_ok() {
                core.rebook(|book| tools.iter().for_each(|tool| book.unpin(&server, tool)));
            }
            let _ = reply.send(done.clone());
        });
        Ok(())
    }

    /// Changes what is known of servers, and the tools that there are with it.
    fn rebook(&mut self, change: impl FnOnce(&mut Book)) {
        change(&mut self.policy.mcp);
        let served = self.policy.mcp.tools();
        self.policy.tools = self.policy.tools.with_served(served);
        self.listed = Listed::default();
    }
}

fn find(book: &Book, server: &McpServerName, pins: &[McpPin]) -> Result<Vec<ToolText>, Fault> {
    if !book.servers().contains_key(server) {
        return Err(Fault::Request(unknown_server(server)));
    }
    let found = pins.iter().map(|pin| {
        let seen = book.seen(server, &pin.name);
        match seen.filter(|text| text.sha256() == pin.sha256) {
            Some(text) => Ok(text.clone()),
            None => {
                let name = bxcore::text::cap(&pin.name, bxcore::tool::MAX_TOOL_NAME_BYTES);
                let title = format!("`{server}` has no tool `{name}` with this hash");
                let problem = Problem::new(Code::NotFound, title).hint(format!(
                    "`boxmaker mcp show {server}` asks it what it has now"
                ));
                Err(Fault::Request(problem))
            }
        }
    });
    found.collect()
}
