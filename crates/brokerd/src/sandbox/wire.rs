//! What the three processes say to each other: one JSON object a line, bounded.

use super::limits::MAX_MESSAGE_BYTES;
use bxcore::id::SessionId;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};
use std::path::PathBuf;

/// What the launcher may show to commands; said once, before anything else.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Setup {
    /// The folder of the sessions' workspaces.
    pub(super) sessions: PathBuf,
    /// The owner's folders, by name.
    pub(super) owner: BTreeMap<String, PathBuf>,
    /// Programs that are talked with, by name.
    pub(super) programs: BTreeMap<String, Program>,
}

/// A program that is talked with through its standard input and output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// The program and its arguments. A name without `/` is looked for in `/usr`.
    pub command: Vec<String>,
    /// Folders that it sees, at the paths that they have outside.
    pub read_only: Vec<PathBuf>,
    /// What its environment has beside what every command's has.
    pub environment: BTreeMap<String, String>,
}

/// The answer to it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Ready;

/// A command to run. It names folders, and never a path: what there is the launcher knows.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Job {
    /// The session whose workspace it works in.
    pub session: SessionId,
    /// The names of the owner's folders that it may read.
    pub folders: Vec<String>,
    /// What the shell is given.
    pub command: String,
    /// How long it may run, in seconds.
    pub timeout_secs: u64,
    /// How much of its output is wanted, in bytes: half from the start, half from the end.
    pub keep_bytes: usize,
}

/// A program to run. It names the program, and never a path.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Service {
    /// The name that the launcher knows it by.
    pub program: String,
    /// The session whose workspace it works in; without one it has an empty folder that goes with it.
    pub session: Option<SessionId>,
    /// How long it may run, in seconds.
    pub timeout_secs: u64,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// By itself, with this code.
    Exit(i32),
    /// By a signal.
    Signal(i32),
    /// It ran too long and was killed.
    Timeout,
    /// It wrote too much and was killed.
    Output,
    /// It had too many processes and was killed.
    Processes,
    /// Its processes took too much memory together and were killed.
    Memory,
    /// The sandbox broke off: killed from outside, or by the kernel for want of memory.
    Broken,
    /// It did not begin, and why.
    Unavailable(String),
}

/// What came of a job. The kept output follows: its start, then its end.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Report {
    pub(super) ended: Ended,
    pub(super) total_bytes: u64,
    pub(super) head_bytes: usize,
    pub(super) tail_bytes: usize,
}

/// What the launcher tells the stage.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) task: Task,
    pub(super) cpu_secs: u64,
}

/// What the stage starts.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Task {
    /// A command for the shell.
    Command(String),
    /// A program whose standard input and output are the stage's standard output, a socket.
    Program {
        command: Vec<String>,
        environment: BTreeMap<String, String>,
    },
}

/// What the stage tells the launcher.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Word {
    /// The shell runs.
    Began,
    /// The shell can't be run, and why.
    Failed(String),
    /// It is over.
    Ended(Ended),
}

/// Writes one message.
pub(super) fn send<T: Serialize>(mut to: impl Write, message: &T) -> io::Result<()> {
    let mut line = serde_json::to_vec(message).map_err(io::Error::other)?;
    line.push(b'\n');
    to.write_all(&line)
}

/// Reads one message.
pub(super) fn receive<T: DeserializeOwned>(from: impl BufRead) -> io::Result<T> {
    let mut line = Vec::new();
    from.take(MAX_MESSAGE_BYTES).read_until(b'\n', &mut line)?;
    if line.pop() != Some(b'\n') {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    serde_json::from_slice(&line).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}
