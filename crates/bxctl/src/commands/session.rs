//! `session`: one session looked at, stopped, exported, deleted.

mod cache;
mod compact;
mod delete;
mod export;
mod log;
mod verify;

use crate::connection::Connection;
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::ready::ensure_up;
use bxcore::code::Code;
use bxcore::id::SessionId;
use bxcore::wire::loopd::StopReport;
use clap::{Args, Subcommand};
use serde_json::json;
use std::path::PathBuf;

/// What to do with a session.
#[derive(Debug, Subcommand)]
pub enum SessionCommand {
    /// Show what was said and done.
    Log(Which),
    /// Show per model call what the prompt cache kept, and why anything was lost.
    Cache(Which),
    /// Sum the conversation up, so that its next requests are shorter.
    ///
    /// The model of the session writes the summary, which is what is shown. The last messages stay as
    /// they are (`keep_percent` in loopd.toml), and the transcript keeps everything.
    Compact(Which),
    /// Check a helper's transcript against its receipt, its calls and the audit log, offline.
    Verify(Which),
    /// Stop the turn that is under way.
    Stop(Which),
    /// Write the transcript to a file, or to standard output.
    Export(ExportArgs),
    /// Delete the session, its transcript and the files in its own folder.
    ///
    /// Folders that you share with sessions (`[[workspace]]`) are never touched. What was decided
    /// stays in the audit log, and the session's label stays with its name.
    Delete(DeleteArgs),
}

/// Which session.
#[derive(Debug, Args)]
pub struct Which {
    /// The session.
    pub id: SessionId,
}

/// Options of `session export`.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// The session.
    pub id: SessionId,
    /// The file, which must not exist yet; standard output if left out.
    pub file: Option<PathBuf>,
}

/// Options of `session delete`.
#[derive(Debug, Args)]
pub struct DeleteArgs {
    /// The session.
    pub id: SessionId,
    /// Don't ask.
    #[arg(short, long)]
    pub yes: bool,
}

pub(crate) async fn run(context: &Context<'_>, command: SessionCommand) -> Outcome {
    let command = match command {
        // It needs nothing that runs.
        SessionCommand::Verify(which) => return verify::run(context, &which.id),
        command => command,
    };
    let connection = match command {
        // Where nothing runs, nothing is under way.
        SessionCommand::Stop(_) => Connection::open(context).await?,
        _ => ensure_up(context).await?,
    };
    match command {
        SessionCommand::Log(which) => log::run(context, &connection, &which.id).await,
        SessionCommand::Cache(which) => cache::run(context, &connection, &which.id).await,
        SessionCommand::Compact(which) => compact::run(context, &connection, &which.id).await,
        SessionCommand::Stop(which) => stop(context, &connection, &which.id).await,
        SessionCommand::Export(args) => export::run(context, &connection, &args).await,
        SessionCommand::Delete(args) => delete::run(context, &connection, &args).await,
        // Done before.
        SessionCommand::Verify(_) => Ok(()),
    }
}

async fn stop(context: &Context<'_>, connection: &Connection, id: &SessionId) -> Outcome {
    let path = format!("/v1/sessions/{id}/stop");
    let report: StopReport = connection.loopd.post(&path, &json!({})).await?;
    if context.output.json {
        context.output.answer_json(&report)?;
    } else {
        context.output.answer(&stopped(&report))?;
    }
    if report.failed > 0 {
        return Err(Failure::new(Code::Internal, "A turn could not be stopped"));
    }
    Ok(())
}

fn stopped(report: &StopReport) -> String {
    let mut text = match report.stopped {
        0 => "no turn was under way\n".to_owned(),
        1 => "the turn is stopped\n".to_owned(),
        many => format!("{many} turns are stopped\n"),
    };
    if report.draining > 0 {
        text.push_str("the server still ends its current batch; its slot is free after that\n");
    }
    text
}
