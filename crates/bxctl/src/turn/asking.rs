//! Asking for an approval in place, while the turn that needs it is followed.

use crate::output::{Output, sanitize};
use bxcore::id::{ApprovalId, CallId};
use bxcore::wire::approval::{Approval, Said};
use bxkit::rpc::{CallError, Client};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::time::Duration;
use tokio::task::{JoinError, JoinSet};

/// The terminal that belongs to the process, whatever its streams are.
const TERMINAL: &str = "/dev/tty";
/// The longest reply that is read, in bytes; a terminal gives one line at a time.
const MAX_REPLY_BYTES: usize = 256;
/// How often it is looked whether a line was typed, in milliseconds. A read that blocks could not be
/// given up when somebody answers elsewhere.
const LOOK_MS: u64 = 50;

/// A question that is on the terminal.
#[derive(Debug, Default)]
pub(super) struct Asking {
    call: Option<CallId>,
    questions: JoinSet<Result<Option<Replied>, CallError>>,
}

/// What the person said to what they saw.
#[derive(Debug)]
pub(super) struct Replied {
    pub(super) seen: Approval,
    pub(super) said: Said,
}

impl Asking {
    /// Whether a question can be put: a person reads along and has a terminal to type on.
    pub(super) fn is_possible(output: &Output) -> bool {
        output.err_is_terminal && !output.json && is_in_front()
    }

    /// Puts a question.
    pub(super) fn put(&mut self, output: Output, brokerd: Client, call: CallId, id: ApprovalId) {
        self.questions.abort_all();
        self.call = Some(call);
        self.questions.spawn(async move {
            let seen: Approval = brokerd.get(&format!("/v1/approvals/{id}")).await?;
            output.note_raw(&sanitize(&seen.shown));
            output.note_raw("Let it run, once? [y/N] ");
            loop {
                let said = match reply().await {
                    Ok(Some(reply)) => match reply.as_str() {
                        "y" | "yes" => Said::Approve,
                        "n" | "no" | "" => Said::Deny,
                        _ => {
                            output.note_raw("Say y or n. Let it run, once? [y/N] ");
                            continue;
                        }
                    },
                    // Nobody types any more; whoever is elsewhere may still answer.
                    Ok(None) | Err(_) => {
                        output.note(&format!("\nit still waits: `boxmaker approve {id}`"));
                        return Ok(None);
                    }
                };
                return Ok(Some(Replied { seen, said }));
            }
        });
    }

    /// Whether a question is open: nothing else moves on the terminal meanwhile.
    pub(super) fn is_open(&self) -> bool {
        self.call.is_some()
    }

    /// Takes the question back: nobody would hear the reply.
    pub(super) fn give_up(&mut self) -> bool {
        let was_open = self.call.take().is_some();
        self.questions.abort_all();
        was_open
    }

    /// The call ended, whoever answered. Gives whether its question was still open.
    pub(super) fn ended(&mut self, call: CallId) -> bool {
        let was_open = self.call == Some(call);
        if was_open {
            self.call = None;
            self.questions.abort_all();
        }
        was_open
    }

    /// Waits for the reply; for ever where nothing is asked.
    pub(super) async fn replied(&mut self) -> Result<Option<Replied>, CallError> {
        loop {
            match self.questions.join_next().await {
                None => std::future::pending::<()>().await,
                Some(Ok(replied)) => {
                    self.call = None;
                    return replied;
                }
                Some(Err(error)) if JoinError::is_cancelled(&error) => {}
                Some(Err(_)) => {
                    self.call = None;
                    return Ok(None);
                }
            }
        }
    }
}

/// Whether the terminal is this process's to read: one in the background would be stopped by it.
fn is_in_front() -> bool {
    let group = terminal().and_then(rustix::termios::tcgetpgrp);
    group.is_ok_and(|group| group == rustix::process::getpgrp())
}

/// The terminal, opened anew, so that reading it without waiting changes nothing for others.
fn terminal() -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    rustix::fs::open(TERMINAL, flags, Mode::empty())
}

/// The line that is typed from now on, in lower case; none at the end of the input. What was typed
/// before the question was seen is no answer to it.
async fn reply() -> rustix::io::Result<Option<String>> {
    let terminal = terminal()?;
    rustix::termios::tcflush(&terminal, rustix::termios::QueueSelector::IFlush)?;
    let mut line = [0; MAX_REPLY_BYTES];
    let length = loop {
        match rustix::io::read(&terminal, &mut line) {
            Err(Errno::AGAIN | Errno::INTR) => {
                tokio::time::sleep(Duration::from_millis(LOOK_MS)).await;
            }
            read => break read?,
        }
    };
    let line = line.get(..length).unwrap_or_default();
    let text = String::from_utf8_lossy(line).trim().to_lowercase();
    Ok((length > 0).then_some(text))
}
