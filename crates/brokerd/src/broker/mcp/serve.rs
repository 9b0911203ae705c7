//! Calls of tools of MCP servers.

use super::keep::McpJob;
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
                Some(order) => server.call(&self.sandbox, order).await,
                None => server.look(&self.sandbox).await,
            };
        }
        // It is never closed, and the launcher takes no more at once than it lets pass.
        let Ok(_permit) = self.tools.acquire().await else {
            return lost(io::ErrorKind::NotConnected.into());
        };
        let Some(order) = order else {
            return server.look(&self.sandbox).await;
        };
        match self.workspace_of(&order.session).await {
            Ok(()) => server.call(&self.sandbox, order).await,
            Err(error) => lost(error),
        }
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
