//! `shell`: a command in a sandbox, in the session's workspace.

use super::output::{Output, ToolError, arguments};
use super::registry::{Done, Run};
use crate::sandbox::{Ended, Job, MAX_COMMAND_SECS, MAX_OUTPUT_BYTES, MAX_PROCESSES, Ran};
use bxcore::code::Code;
use bxcore::label::Label;
use serde::Deserialize;
use serde_json::{Value, json};

pub(super) const DESCRIPTION: &str = "Run a shell command in a sandbox without network. It works in \
    the workspace, where files stay; the owner's folders are in /owner, to be read only. Each call \
    is a new shell, and what still runs at its end is stopped.";

/// How long a command may run if nothing is said, in seconds.
const DEFAULT_SECS: u64 = 60;
/// What the lines around the output need of the result's space.
const FRAME_BYTES: usize = 200;

pub(super) fn parameters() -> Value {
    json!({
        "type": "object",
        "properties": {
            "command": {"type": "string", "minLength": 1, "description": "What /bin/sh is to run"},
            "timeout_s": {
                "type": "integer", "minimum": 1, "maximum": MAX_COMMAND_SECS,
                "description": "Most seconds it may take; default 60"
            }
        },
        "required": ["command"],
        "additionalProperties": false
    })
}

#[derive(Deserialize)]
struct Arguments {
    command: String,
    #[serde(default = "default_secs")]
    timeout_s: u64,
}

const fn default_secs() -> u64 {
    DEFAULT_SECS
}

/// How long the command of these arguments may run, in seconds.
pub(super) fn timeout_secs(checked: &Value) -> u64 {
    let asked = checked.get("timeout_s").and_then(Value::as_u64);
    asked.unwrap_or(DEFAULT_SECS).min(MAX_COMMAND_SECS)
}

pub(super) fn run(run: &Run<'_>) -> Done {
    // The session's own files, and those of the owner's that the session's label covers: no
    // command raises it by what else lies around.
    let label = run.view.own_root().label.join(run.label);
    let arguments: Arguments = arguments(run.arguments, label)?;
    let visible = run.view.owner_roots();
    let folders = visible.filter(|root| root.label.is_within(run.label));
    let ran = run.sandbox.run(&Job {
        session: run.session.clone(),
        folders: folders.filter_map(|root| root.name.clone()).collect(),
        command: arguments.command,
        timeout_secs: arguments.timeout_s,
        keep_bytes: run.result_bytes.saturating_sub(FRAME_BYTES),
    });
    let ran = ran.map_err(|error| (ToolError::from(error), label))?;
    Ok(show(&ran, arguments.timeout_s, run.result_bytes, label))
}

fn show(ran: &Ran, timeout_secs: u64, result_bytes: usize, label: Label) -> Output {
    let (how, is_failure) = match &ran.ended {
        Ended::Exit(code) => (format!("exit code {code}"), false),
        Ended::Signal(signal) => (format!("ended by signal {signal}"), false),
        Ended::Timeout => (format!("stopped after {timeout_secs} s"), true),
        Ended::Output => (
            format!("stopped: more than {MAX_OUTPUT_BYTES} bytes of output"),
            true,
        ),
        Ended::Processes => (
            format!("stopped: more than {MAX_PROCESSES} processes"),
            true,
        ),
        Ended::Memory => ("stopped: too much memory in use".to_owned(), true),
        Ended::Broken | Ended::Unavailable(_) => ("the sandbox broke off".to_owned(), true),
    };
    let half_bytes = result_bytes.saturating_sub(FRAME_BYTES) / 2;
    let output = output(ran, half_bytes);
    let text = if output.is_empty() {
        format!("[{how}; no output]")
    } else {
        format!("[{how}]\n{output}")
    };
    Output {
        failure: is_failure.then_some(Code::ToolFailed),
        text,
        ..Output::ok(String::new(), label)
    }
}

/// What it wrote as text, with a word for what was left out of the middle.
fn output(ran: &Ran, half_bytes: usize) -> String {
    let kept = (ran.head.len() + ran.tail.len()) as u64;
    if kept >= ran.total_bytes {
        let all = [ran.head.as_slice(), &ran.tail].concat();
        let all = String::from_utf8_lossy(&all);
        if all.len() <= half_bytes * 2 {
            return all.into_owned();
        }
    }
    // Each byte that is no text takes three to show, so that what fitted may fit no more.
    let (head, tail) = (
        String::from_utf8_lossy(&ran.head),
        String::from_utf8_lossy(&ran.tail),
    );
    let head = &head[..head.floor_char_boundary(half_bytes)];
    let tail = &tail[tail.ceil_char_boundary(tail.len().saturating_sub(half_bytes))..];
    let total = ran.total_bytes;
    format!("{head}\n[the middle of {total} bytes is left out]\n{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(ended: Ended, head: &[u8], tail: &[u8], total_bytes: u64) -> (Option<Code>, String) {
        let ran = Ran {
            ended,
            total_bytes,
            head: head.to_vec(),
            tail: tail.to_vec(),
        };
        let output = show(&ran, 9, FRAME_BYTES + 20, Label::OWNER);
        (output.failure, output.text)
    }

    #[test]
    fn how_it_ended_comes_first() {
        let check = |ended, failure: Option<Code>, text: &str| {
            let found = shown(ended, b"a\xffb", b"", 3);
            assert_eq!(found, (failure, format!("[{text}]\na\u{fffd}b")));
        };
        let failed = Some(Code::ToolFailed);
        check(Ended::Exit(0), None, "exit code 0");
        check(Ended::Exit(3), None, "exit code 3");
        check(Ended::Signal(9), None, "ended by signal 9");
        check(Ended::Timeout, failed, "stopped after 9 s");
        check(Ended::Processes, failed, "stopped: more than 256 processes");
        check(Ended::Memory, failed, "stopped: too much memory in use");
        check(Ended::Broken, failed, "the sandbox broke off");
        let (_, text) = shown(Ended::Exit(0), b"", b"", 0);
        assert_eq!(text, "[exit code 0; no output]");
    }

    #[test]
    fn both_ends_are_shown_and_fit() {
        let (_, text) = shown(Ended::Exit(0), b"0123456789", b"abcdefghij", 1000);
        assert_eq!(
            text,
            "[exit code 0]\n0123456789\n[the middle of 1000 bytes is left out]\nabcdefghij"
        );
        let (_, text) = shown(Ended::Exit(0), &[0xff; 10], &[0xff; 10], 20);
        assert!(text.len() < FRAME_BYTES + 20, "{text}");
    }
}
