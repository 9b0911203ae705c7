//! Starting a process, and what it is given.

use super::machine::Event;
use super::part::{Exit, Part};
use super::relay::Relay;
use bxkit::home::Home;
use bxkit::keys::RoleKeys;
use rustix::process::{Pid, Signal};
use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};
use tokio::sync::mpsc;

/// What of our environment a role gets. Nothing else: a secret in it would be everyone's.
const PASSED_ON: [&str; 13] = [
    "PATH",
    "LANG",
    "LC_ALL",
    "TZ",
    "HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "BOXMAKER_LOG",
    "BOXMAKER_FAULT",
    "BOXMAKER_FAULT_LOG",
    "RUST_BACKTRACE",
    // A folder, not a secret: only brokerd and its files' owner can read in it.
    "CREDENTIALS_DIRECTORY",
];

/// How many signals wait for a process that is being started.
const MAX_SIGNALS: usize = 8;

/// A process that runs: gone with its last signal sender and its exit.
#[derive(Debug)]
pub(crate) struct Running {
    signals: mpsc::Sender<Signal>,
}

impl Running {
    /// A handle, and where its signals arrive.
    pub(crate) fn pair() -> (Self, mpsc::Receiver<Signal>) {
        let (signals, wanted) = mpsc::channel(MAX_SIGNALS);
        (Self { signals }, wanted)
    }

    /// Sends a signal. SIGKILL goes to all that the process has started, too.
    pub(crate) fn signal(&self, signal: Signal) {
        // A full queue or a process that is gone: it has had all the signals that it needs.
        let _ = self.signals.try_send(signal);
    }
}

/// The executable that is running now, even if its file was replaced meanwhile.
pub(crate) fn own_executable() -> PathBuf {
    match std::env::current_exe() {
        Ok(path) if path.exists() => path,
        _ => PathBuf::from("/proc/self/exe"),
    }
}

/// The environment of a role: the list above, and the home as an absolute path.
pub(crate) fn environment(home: &Home) -> Vec<(OsString, OsString)> {
    let passed = PASSED_ON
        .iter()
        .filter_map(|name| std::env::var_os(name).map(|value| (OsString::from(name), value)));
    let root = std::env::var_os("BOXMAKER_HOME")
        .filter(|value| !value.is_empty())
        .and_then(|_| {
            let root = home.config_dir().parent()?;
            Some((OsString::from("BOXMAKER_HOME"), root.as_os_str().to_owned()))
        });
    passed.chain(root).collect()
}

/// Starts a role and hands it its keys. Its standard input stays open for as long as we live.
pub(crate) fn start_role(
    home: &Home,
    keys: &RoleKeys,
    relay: Relay,
    events: mpsc::Sender<Event>,
) -> io::Result<(u32, Running)> {
    let part = Part::Role(keys.me);
    let mut line = serde_json::to_vec(keys).map_err(io::Error::other)?;
    line.push(b'\n');
    let mut child = command(home, part).spawn()?;
    let pid = child.id().ok_or(io::ErrorKind::NotFound)?;
    let (running, wanted) = Running::pair();
    let said = child
        .stderr
        .take()
        .map(|stderr| tokio::spawn(relay.run(stderr)));
    tokio::spawn(async move {
        let exit = live(&mut child, &line, wanted).await;
        if let Some(said) = said {
            // Its last words are read before its end is told. A grandchild may keep the pipe open.
            let _ = tokio::time::timeout(LAST_WORDS_WITHIN, said).await;
        }
        // The supervisor's loop is gone: then nobody waits for this.
        let _ = events.send(Event::Ended { part, exit }).await;
    });
    Ok((pid, running))
}

fn command(home: &Home, part: Part) -> Command {
    let mut command = Command::new(own_executable());
    command
        .arg0("boxmaker")
        .args(["role", part.name()])
        .env_clear()
        .envs(environment(home))
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        // Ctrl-C in a terminal is for us alone: we stop the roles in their order.
        .process_group(0)
        .kill_on_drop(true);
    command
}

/// How long the last words of a process are waited for.
const LAST_WORDS_WITHIN: std::time::Duration = std::time::Duration::from_millis(500);

/// Lives with a process until it ends.
async fn live(child: &mut Child, first: &[u8], mut wanted: mpsc::Receiver<Signal>) -> Exit {
    let pid = child.id();
    let mut lifeline = child.stdin.take();
    if let Some(stdin) = &mut lifeline {
        // One that ended before it read a word shows that by its exit.
        let _ = stdin.write_all(first).await;
        let _ = stdin.flush().await;
    }
    let ended = loop {
        tokio::select! {
            ended = child.wait() => break ended,
            Some(signal) = wanted.recv() => send(child.id(), signal),
        }
    };
    drop(lifeline);
    // What it has started must not outlive it.
    send(pid, Signal::KILL);
    ended.map_or(Exit::NotStarted, exit)
}

fn send(pid: Option<u32>, signal: Signal) {
    let pid = pid
        .and_then(|pid| i32::try_from(pid).ok())
        .and_then(Pid::from_raw);
    let Some(pid) = pid else { return };
    // It may have ended in between, which is what was wanted.
    let _ = if signal == Signal::KILL {
        rustix::process::kill_process_group(pid, signal)
    } else {
        rustix::process::kill_process(pid, signal)
    };
}

fn exit(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::NotStarted,
    }
}
