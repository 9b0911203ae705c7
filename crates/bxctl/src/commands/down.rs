//! `down`: stops what runs.

use crate::connection::Connection;
use crate::context::Context;
use crate::failure::Outcome;
use crate::holder;
use bxcore::code::Code;
use bxcore::problem::Problem;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::time::{Duration, Instant};

/// How long stopping may take, in seconds: above the sum of the bounds that the supervisor has for
/// each of its four processes, one after another.
const STOP_WITHIN_SECS: u64 = 75;

/// How often it is looked whether everything is gone, in milliseconds.
const POLL_MS: u64 = 50;

pub(crate) async fn run(context: &Context<'_>) -> Outcome {
    let pid = match Connection::find(context.home).await {
        Ok(Some(connection)) => {
            let pid = connection.status().await?.pid;
            connection
                .supervisor
                .post::<_, ()>("/v1/down", &json!({}))
                .await?;
            pid
        }
        // Its token or socket is gone; the kernel still knows that somebody holds the home.
        Ok(None) => match holder::of(context.home) {
            Some(pid) => terminate(pid)?,
            None => return say(context, false, "Boxmaker was not running."),
        },
        Err(problem) => terminate(holder::of(context.home).ok_or(problem)?)?,
    };
    let mut progress = context.progress();
    progress.status("stopping …");
    // The token's file goes when every role is gone, and the supervisor itself a moment later.
    if !is_over(|| context.home.owner_token_file().exists() || runs(pid)).await {
        return Err(Problem::new(Code::Internal, "Boxmaker does not stop")
            .detail(format!("it was asked to {STOP_WITHIN_SECS} s ago"))
            .hint("`boxmaker status` shows its process; look into the logs below the state folder")
            .into());
    }
    progress.clear();
    say(context, true, "Boxmaker is stopped.")
}

/// Waits until a process is gone, within bounds.
pub(super) async fn gone(pid: u32) {
    is_over(|| runs(pid)).await;
}

/// Waits for the end of something; no if it still lasts when stopping should be done.
async fn is_over(lasts: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + Duration::from_secs(STOP_WITHIN_SECS);
    while lasts() {
        if Instant::now() > deadline {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(POLL_MS)).await;
    }
    true
}

/// Asks a supervisor to stop by a signal, as a terminal or a service manager does.
fn terminate(pid: u32) -> Result<u32, Problem> {
    let target = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let sent = target.ok_or(Errno::SRCH);
    sent.and_then(|target| kill_process(target, Signal::TERM))
        .map(|()| pid)
        .map_err(|errno| {
            Problem::new(Code::Internal, "Boxmaker can't be told to stop")
                .detail(format!("process {pid}: {errno}"))
        })
}

/// Whether a process still does anything; one that only waits to be cleared away doesn't.
fn runs(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return false;
    };
    // The state stands behind the name, which is in parentheses and may hold any of them.
    let state = stat
        .rsplit(')')
        .next()
        .and_then(|rest| rest.trim_start().chars().next());
    !matches!(state, Some('Z' | 'X') | None)
}

fn say(context: &Context<'_>, stopped: bool, text: &str) -> Outcome {
    if context.output.json {
        context.output.answer_json(&json!({ "stopped": stopped }))?;
    } else {
        context.output.answer(&format!("{text}\n"))?;
    }
    Ok(())
}
