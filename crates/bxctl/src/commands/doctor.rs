//! `doctor`: everything that can be wrong, and what to do.

use super::down::gone;
use crate::connection::Connection;
use crate::context::Context;
use crate::doctor::{
    Finding, Level, bubblewrap, configuration, disk, folders, kernel, outside, python, render,
    running, starter, workspaces,
};
use crate::failure::{Failure, Outcome};
use bxkit::exit;
use clap::Args;
use serde_json::json;

/// Options of `doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Don't ask the models anything.
    #[arg(long)]
    pub quick: bool,
}

pub(crate) async fn run(context: &Context<'_>, args: &DoctorArgs) -> Outcome {
    let mut findings = vec![Finding::ok(
        "version",
        format!("{} {}", context.program, env!("CARGO_PKG_VERSION")),
    )];
    findings.extend(kernel());
    findings.extend(folders(context));
    findings.push(disk(context));
    let configured = configuration(context);
    let is_readable = configured.iter().all(|found| found.level != Level::Fail);
    findings.extend(configured);
    findings.extend(workspaces(context));
    findings.extend(outside(context));
    findings.push(bubblewrap());
    findings.push(python());
    findings.extend(starter(context));
    findings.extend(house(context, args, is_readable).await);
    if context.output.json {
        context.output.answer_json(&findings)?;
    } else {
        context
            .output
            .answer(&render(&findings, context.output.paint_out))?;
    }
    if findings.iter().any(|finding| finding.level == Level::Fail) {
        return Err(Failure::Said(exit::FAILED));
    }
    Ok(())
}

/// What runs; where nothing does, it is started for a moment, which is a check of its own.
async fn house(context: &Context<'_>, args: &DoctorArgs, is_readable: bool) -> Vec<Finding> {
    let found = match Connection::find(context.home).await {
        Ok(found) => found,
        Err(problem) => return vec![Finding::problem(Level::Fail, "supervisor", &problem)],
    };
    if let Some(mut connection) = found
        // A test of a slow model must not be cut off because nothing else happens.
        && connection.attach().await.is_ok()
    {
        // Somebody may have started it a moment ago.
        crate::ready::begun(&connection).await;
        return running(context, &connection, !args.quick).await;
    }
    if context.launcher.is_none() {
        let todo = "boxmaker up, then try again";
        return vec![Finding::warn(
            "supervisor",
            "not running, so no model server was looked at",
            todo,
        )];
    }
    if !is_readable {
        let found = "not running, and not started with a configuration that is wrong";
        let todo = "correct the file that is named above, then try again";
        return vec![Finding::fail("supervisor", found, todo)];
    }
    let connection = match crate::ready::ensure_up(context).await {
        Ok(connection) => connection,
        Err(failure) => {
            let problem = failure
                .problem()
                .unwrap_or_else(crate::connection::not_running);
            return vec![Finding::problem(Level::Fail, "supervisor", &problem)];
        }
    };
    let findings = running(context, &connection, !args.quick).await;
    leave(&connection).await;
    findings
}

/// Ends what was started for this alone; whoever came meanwhile keeps it.
async fn leave(connection: &Connection) {
    let pid = connection.status().await.map(|status| status.pid);
    let leaves: Result<bool, _> = connection.supervisor.post("/v1/leave", &json!({})).await;
    // It leaves by itself when idle, should this not have reached it.
    if let (Ok(pid), Ok(true)) = (pid, leaves) {
        gone(pid).await;
    }
}
