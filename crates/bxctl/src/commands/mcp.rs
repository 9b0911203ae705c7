//! `mcp`: what MCP servers offer, and which of it the owner trusts.

mod list;
mod show;
mod target;
mod trust;

use crate::connection::Connection;
use crate::context::Context;
use crate::failure::Outcome;
use crate::ready::ensure_up;
use bxcore::id::McpServerName;
use bxcore::wire::mcp::McpServer;
use bxkit::rpc::CallError;
use clap::Subcommand;
use std::time::Duration;
use target::Target;

/// How long a server may take to be looked at, in seconds: longer than brokerd waits for it.
const LOOK_SECS: u64 = 360;

/// What to do with servers of tools.
#[derive(Debug, Subcommand)]
pub enum McpCommand {
    /// Ask the servers what tools they have, and say which of them are trusted.
    List(list::ListArgs),
    /// Show all of a tool that a model would read, or of each tool of a server.
    Show {
        /// `SERVER` or `SERVER/TOOL`.
        target: Target,
    },
    /// Trust tools as they are now, once you have read what they say; goes on record.
    Trust(trust::TrustArgs),
    /// Trust a tool no more, or none of a server's; goes on record.
    Untrust {
        /// `SERVER` or `SERVER/TOOL`.
        target: Target,
    },
}

pub(crate) async fn run(context: &Context<'_>, command: McpCommand) -> Outcome {
    let connection = ensure_up(context).await?;
    match command {
        McpCommand::List(args) => list::run(context, &connection, &args).await,
        McpCommand::Show { target } => show::run(context, &connection, &target).await,
        McpCommand::Trust(args) => trust::run(context, &connection, &args).await,
        McpCommand::Untrust { target } => trust::untrust(context, &connection, target).await,
    }
}

/// Has a server asked for what it has now.
async fn look(connection: &Connection, name: &McpServerName) -> Result<McpServer, CallError> {
    let brokerd = connection.brokerd.clone();
    let brokerd = brokerd.timeout(Duration::from_secs(LOOK_SECS));
    brokerd.post(&format!("/v1/mcp/{name}/look"), &()).await
}
