//! Calls of tools of MCP servers.

use super::keep::McpJob;
use crate::broker::drive::ERRAND_WAIT;
use crate::broker::handle::Broker;
use crate::broker::job::Job;
use crate::mcp::{Done, McpFailure, Order, Place, Server};
use crate::sandbox::SandboxError;
use crate::tools::{Output, ToolError};
use bxcore::code::Code;
use bxcore::id::{McpServerName, SessionId};
use bxcore::label::Label;
use bxkit::fault;
use std::io;
use std::sync::Arc;
use tokio::sync::SemaphorePermit;

/// A call of a server's tool, decided and on record.
#[derive(Debug)]
pub(in crate::broker) struct Served {
    pub(super) server: McpServerName,
    pub(super) order: Order,
}

impl Broker {
    /// Has a server do what was decided.
    pub(in crate::broker) async fn serve(&self, served: Served) -> Output {
        let Some(server) = self.mcp.get(&served.server).cloned() else {
            // It was decided by its configuration.
            return Output::failed(&ToolError::Crashed, Label::BOTTOM);
        };
        fault::point("brokerd.before-send");
        let done = self.meet(&server, Some(served.order)).await;
        fault::point("brokerd.after-send");
        if let (Err(McpFailure::Changed(_)), Some(tools)) = (&done.outcome, done.seen) {
            // From now on it is not offered any more. If that can't be kept, the next call finds
            // it again.
            let see = |reply| McpJob::See {
                server: served.server,
                tools,
                reply,
            };
            let _ = self.ask(|reply| Job::Mcp(see(reply))).await;
        }
        match done.outcome {
            // What it carries besides is the grant's to say.
            Ok(Some(called)) => Output {
                failure: called.is_error.then_some(Code::ToolFailed),
                ..Output::ok(called.text, Label::BOTTOM)
            },
            Ok(None) => Output::failed(&ToolError::Crashed, Label::BOTTOM),
            Err(failure) => Output {
                failure: Some(failure.code()),
                ..Output::ok(failure.told(), Label::BOTTOM)
            },
        }
    }

    /// Connects to a server, one of as many as may run at once.
    pub(super) async fn meet(&self, server: &Server, order: Option<Order>) -> Done {
        if server.settings().place() != Place::Sandbox {
            let Some(_permit) = self.may_leave().await else {
                return McpFailure::Busy.into();
            };
            return match order {
                Some(order) if !self.is_still_trusted(server, &order).await => {
                    McpFailure::Changed(order.tool).into()
                }
                Some(order) => server.call(&self.sandbox, order).await,
                None => server.look(&self.sandbox).await,
            };
        }
        let Some(_places) = self.may_run_program().await else {
            return McpFailure::Busy.into();
        };
        if let Some(order) = &order
            && !self.is_still_trusted(server, order).await
        {
            return McpFailure::Changed(order.tool.clone()).into();
        }
        let Some(order) = order else {
            return server.look(&self.sandbox).await;
        };
        match self.workspace_of(&order.session).await {
            Ok(()) => server.call(&self.sandbox, order).await,
            Err(error) => lost(error),
        }
    }

    /// A place for a program among those of servers and of all tools; none if others have them for
    /// too long.
    async fn may_run_program(&self) -> Option<[SemaphorePermit<'_>; 2]> {
        let places = async {
            let own = self.programs.acquire().await.ok()?;
            Some([own, self.tools.acquire().await.ok()?])
        };
        tokio::time::timeout(ERRAND_WAIT, places).await.ok()?
    }

    /// Whether the owner trusts what was decided to be called: a call that waited for its place may
    /// have been overtaken by the owner's word.
    async fn is_still_trusted(&self, server: &Server, order: &Order) -> bool {
        let name = server.settings().name.clone();
        let trusted = |reply| {
            Job::Mcp(McpJob::Trusted {
                server: name,
                reply,
            })
        };
        let trusted = self.ask(trusted).await;
        trusted.is_ok_and(|tools| tools.contains(&order.tool))
    }

    /// Makes a session's workspace, where it is not there yet.
    async fn workspace_of(&self, session: &SessionId) -> io::Result<()> {
        let (workspaces, session) = (Arc::clone(&self.workspaces), session.clone());
        let made = tokio::task::spawn_blocking(move || workspaces.of(&session).map(drop)).await;
        made.map_err(io::Error::other)?
    }
}

fn lost(error: io::Error) -> Done {
    McpFailure::from(SandboxError::Launcher(error)).into()
}
