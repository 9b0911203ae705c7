//! `backend`: model servers added, listed, tested.

mod add;
mod edit;
mod list;
mod look;
mod probe;
mod providers;
mod remove;

pub(crate) use list::render_all;
pub(crate) use probe::{is_fine, probe};
#[cfg(test)]
pub(crate) use providers::sample;
pub(crate) use providers::{providers, render_providers, spent};

use crate::context::Context;
use crate::failure::Outcome;
use crate::ready::ensure_up;
use bxcore::id::BackendName;
use clap::{Args, Subcommand, ValueEnum};

/// What to do with model servers.
#[derive(Debug, Subcommand)]
pub enum BackendCommand {
    /// Add a model server to inferproxy.toml and use it from now on.
    Add(AddArgs),
    /// Remove a model server from inferproxy.toml.
    Remove(RemoveArgs),
    /// List the servers that are configured or found, and which a new session uses.
    List,
    /// Try a server: do its slots keep their cache, and what does it support?
    Test(TestArgs),
}

/// Options of `backend add`.
#[derive(Debug, Clone, Args)]
pub struct AddArgs {
    /// A name for it.
    pub name: BackendName,
    /// Where it listens, such as http://127.0.0.1:8080.
    pub url: String,
    /// What kind of server it is.
    #[arg(long, value_enum, default_value_t = Kind::Auto)]
    pub kind: Kind,
    /// A slot for live turns; may be given several times (llama-server).
    #[arg(long, value_name = "SLOT")]
    pub main: Vec<u32>,
    /// The slot for everything else (llama-server).
    #[arg(long, value_name = "SLOT")]
    pub background: Option<u32>,
    /// A slot for council seats; may be given several times (llama-server).
    #[arg(long, value_name = "SLOT")]
    pub seat: Vec<u32>,
    /// How the model calls tools.
    #[arg(long, value_enum)]
    pub tools: Option<Tools>,
    /// Which of the server's models (other servers).
    #[arg(long)]
    pub model: Option<String>,
    /// How many requests it takes at once (other servers).
    #[arg(long, value_name = "COUNT")]
    pub max_concurrency: Option<u32>,
}

/// What kind of server a new backend is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// As the server shows by itself.
    Auto,
    /// llama-server, with slots.
    LlamaServer,
    /// Any OpenAI-compatible server.
    Openai,
}

/// How a model calls tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Tools {
    /// As the server says.
    Auto,
    /// By the server's own tool calls.
    Native,
    /// By replies held to a JSON schema.
    Schema,
}

/// Options of `backend remove`.
#[derive(Debug, Args)]
pub struct RemoveArgs {
    /// Which one.
    pub name: BackendName,
}

/// Options of `backend test`.
#[derive(Debug, Args)]
pub struct TestArgs {
    /// Which one; all if left out.
    pub name: Option<BackendName>,
}

pub(crate) async fn run(context: &Context<'_>, command: BackendCommand) -> Outcome {
    match command {
        BackendCommand::Add(args) => add::run(context, &args).await,
        BackendCommand::Remove(args) => remove::run(context, &args.name).await,
        BackendCommand::List => list::run(context, &ensure_up(context).await?).await,
        BackendCommand::Test(args) => {
            let connection = ensure_up(context).await?;
            probe::run(context, &connection, args.name.as_ref()).await
        }
    }
}
