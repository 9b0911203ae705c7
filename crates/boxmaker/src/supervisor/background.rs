//! A supervisor in the background: how it is started, and how it tells that it is ready.
//!
//! Its standard output is a pipe to whoever started it: one line of JSON, then nothing more.

use super::process::own_executable;
use bxcore::code::Code;
use bxcore::problem::Problem;
use bxkit::home::Home;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

/// How long a background supervisor may take until it is ready, in seconds.
const READY_WITHIN_SECS: u64 = 60;

/// How often it is tried while another supervisor leaves.
const MAX_TRIES: u32 = 50;

/// The pause between two tries, in milliseconds.
const RETRY_MS: u64 = 200;

/// The longest line it may say, in bytes.
const MAX_LINE_BYTES: u64 = 64 * 1024;

/// The size at which its log is begun anew, in bytes.
const MAX_LOG_BYTES: u64 = 1024 * 1024;

/// What a background supervisor says, once.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Word {
    Ready,
    Failed(Problem),
}

/// The supervisor's end of the pipe; does nothing in the foreground.
#[derive(Debug)]
pub(crate) struct Report {
    open: AtomicBool,
}

impl Report {
    /// In the background, the process leaves its terminal, too.
    pub(crate) fn new(background: bool) -> Self {
        if background {
            // Refused to one that leads its own group already, which is just as good.
            let _ = rustix::process::setsid();
        }
        Self {
            open: AtomicBool::new(background),
        }
    }

    /// All roles are ready.
    pub(crate) fn ready(&self) {
        self.say(&Word::Ready);
    }

    /// It ends because of this. Says nothing if it was ready before.
    pub(crate) fn failed(&self, problem: &Problem) {
        self.say(&Word::Failed(problem.clone()));
    }

    fn say(&self, word: &Word) {
        if !self.open.swap(false, Ordering::Relaxed) {
            return;
        }
        let Ok(line) = serde_json::to_string(word) else {
            return;
        };
        // Whoever started us may have gone on; that is no reason to end.
        let mut out = io::stdout().lock();
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
        if let Ok(nothing) = OpenOptions::new().write(true).open("/dev/null") {
            let _ = rustix::stdio::dup2_stdout(&nothing);
        }
    }
}

/// Starts a supervisor that outlives this process, and waits until it is ready.
///
/// # Errors
/// It ended before that, with what it said; or it took too long. One that holds the home already is
/// no error.
pub fn start_background(home: &Home) -> Result<(), Problem> {
    home.create()?;
    let log = home.logs_dir().join("supervisor.log");
    let failed = |error: &io::Error| {
        let code = bxkit::fsx::code_for(error, Code::HomeUnusable);
        Problem::new(code, "Boxmaker can't be started in the background").detail(error.to_string())
    };
    let said = open_log(&log).map_err(|error| failed(&error))?;
    let mut command = Command::new(own_executable());
    command
        .args(["up", "--background"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(said);
    for _ in 0..MAX_TRIES {
        let child = command.spawn().map_err(|error| failed(&error))?;
        match first_word(child) {
            Some(Word::Ready) => return Ok(()),
            // Somebody was faster, or is about to leave.
            Some(Word::Failed(problem)) if problem.code == Code::HomeHeld => {
                if UnixStream::connect(home.supervisor_socket()).is_ok() {
                    return Ok(());
                }
                std::thread::sleep(Duration::from_millis(RETRY_MS));
            }
            Some(Word::Failed(problem)) => return Err(problem),
            None => return Err(silent(&log)),
        }
    }
    Err(silent(&log))
}

fn silent(log: &Path) -> Problem {
    Problem::new(
        Code::RoleUnreachable,
        "Boxmaker does not come up in the background",
    )
    .hint(format!(
        "look into {} and the other logs beside it",
        log.display()
    ))
}

/// The line that the supervisor says; none if it ends without one or takes too long.
fn first_word(mut child: Child) -> Option<Word> {
    let said = child.stdout.take()?;
    let (sender, receiver) = mpsc::sync_channel(1);
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = BufReader::new(said.take(MAX_LINE_BYTES)).read_line(&mut line);
        let word: Option<Word> = read.ok().and_then(|_| serde_json::from_str(&line).ok());
        if matches!(word, Some(Word::Failed(_))) {
            // It said so on its way out: what is told of it is told when it has left.
            let _ = child.wait();
        }
        // Nobody listens any more when it took too long.
        let _ = sender.send(word);
        // Only one that has ended is left to be cleared away; one that runs outlives us.
        let _ = child.try_wait();
    });
    receiver
        .recv_timeout(Duration::from_secs(READY_WITHIN_SECS))
        .ok()
        .flatten()
}

fn open_log(path: &PathBuf) -> io::Result<File> {
    let is_large = path
        .metadata()
        .is_ok_and(|found| found.len() > MAX_LOG_BYTES);
    if is_large {
        std::fs::rename(path, path.with_extension("log.1"))?;
    }
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
}
