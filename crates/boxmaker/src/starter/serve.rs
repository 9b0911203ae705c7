//! Runs the installed engine as a child, and ends it.
//!
//! The child gets its key through standard input, never through arguments or the environment, and
//! leaves when that input closes: whoever kills the supervisor ends the engine too.

use super::error::StarterError;
use super::health::{self, Health};
use super::layout::{Installation, Layout};
use super::log::{LogCopy, copy_log};
use bxkit::keys::{StarterAddress, Token};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::{Instant, sleep, timeout};

/// The model's name on the wire.
pub const MODEL_ALIAS: &str = "smollm2-135m-instruct";

/// How many slots it has: 0 and 1 for live turns, 2 for everything else.
pub const SLOTS: u32 = 3;

/// The context of each slot, in tokens: what the model was trained for.
pub const SLOT_TOKENS: u32 = 8192;

/// Tokens that are read in one go. A stop while reading waits for the current ones, so they are few.
const BATCH_TOKENS: u32 = 64;

/// Memory for prompts of sessions that share a slot, in MiB.
const PROMPT_CACHE_MIB: u32 = 256;

/// What the engine logs: warnings and errors.
const LOG_VERBOSITY: u32 = 2;

/// Variables that the engine keeps; everything else in the environment is ours alone.
const KEPT_VARIABLES: &[&str] = &[
    "PATH",
    "HOME",
    "LANG",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "OMP_NUM_THREADS",
];

/// The one line that it writes on standard output, at most, in bytes.
const MAX_HELLO_BYTES: u64 = 4096;

/// How often it is asked whether it is ready, in milliseconds.
const POLL_MS: u64 = 50;

/// How long it may take to leave after being asked to, in seconds.
const LEAVE_SECS: u64 = 3;

const PROGRAM: &str = include_str!("assets/serve.py");

/// How the engine is started.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// Where its log goes; what was there is replaced.
    pub log_file: PathBuf,
    /// How long it may take until it is ready.
    pub ready_within: Duration,
}

/// What the child is told on its standard input.
#[derive(Serialize)]
struct Instructions<'a> {
    packages: &'a Path,
    model: &'a Path,
    alias: &'a str,
    api_key: &'a str,
    slots: u32,
    slot_tokens: u32,
    batch_tokens: u32,
    prompt_cache_mib: u32,
    verbosity: u32,
}

/// What the child says on its standard output.
#[derive(Deserialize)]
struct Hello {
    listening: String,
}

/// The running engine. Dropping it kills the child.
#[derive(Debug)]
pub struct StarterHandle {
    address: StarterAddress,
    child: Child,
    lifeline: Option<ChildStdin>,
    log: Option<LogCopy>,
}

/// How the engine ended.
#[derive(Debug)]
pub struct ServerExit {
    /// Its exit status.
    pub status: ExitStatus,
    /// Its last lines.
    pub tail: String,
}

/// Starts the installed engine and waits until it is ready.
///
/// # Errors
/// It is not installed, could not be started, ended early, or was not ready in time.
pub async fn start(layout: &Layout, options: &ServeOptions) -> Result<StarterHandle, StarterError> {
    let dir = layout.dir();
    let not_installed = || StarterError::NotInstalled {
        dir: dir.to_owned(),
    };
    let installation = layout.installation().ok_or_else(not_installed)?;
    let key = Token::generate().map_err(StarterError::Random)?;
    let mut starting = Starting::spawn(&installation, options)?;
    let deadline = Instant::now() + options.ready_within;
    let ready = timeout(
        options.ready_within,
        starting.until_ready(&installation, &key),
    )
    .await;
    match ready {
        Ok(Some(url)) => Ok(starting.into_handle(StarterAddress { url, api_key: key })),
        Ok(None) => Err(starting.ended(deadline).await),
        Err(_) => Err(starting.silent(options.ready_within).await),
    }
}

/// A child that isn't ready yet.
struct Starting {
    child: Child,
    lifeline: Option<ChildStdin>,
    hello: Option<ChildStdout>,
    log: LogCopy,
}

impl Starting {
    fn spawn(installation: &Installation, options: &ServeOptions) -> Result<Self, StarterError> {
        let python = &installation.python;
        let mut command = Command::new(python);
        command.args(["-I", "-u", "-c", PROGRAM]).env_clear();
        for name in KEPT_VARIABLES {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command
            .spawn()
            .map_err(StarterError::io("starting", python))?;
        let log = copy_log(child.stderr.take(), &options.log_file);
        Ok(Self {
            lifeline: child.stdin.take(),
            hello: child.stdout.take(),
            child,
            log,
        })
    }

    /// Its address once it is ready; none if it ended before.
    async fn until_ready(&mut self, installation: &Installation, key: &Token) -> Option<String> {
        self.instruct(installation, key).await.ok()?;
        let url = self.listening().await?;
        let address: SocketAddr = url.strip_prefix("http://")?.parse().ok()?;
        while health::ask(address).await != Health::Ready {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return None;
            }
            sleep(Duration::from_millis(POLL_MS)).await;
        }
        address.ip().is_loopback().then_some(url)
    }

    async fn instruct(&mut self, installation: &Installation, key: &Token) -> std::io::Result<()> {
        let instructions = Instructions {
            packages: &installation.packages,
            model: &installation.model,
            alias: MODEL_ALIAS,
            api_key: key.expose(),
            slots: SLOTS,
            slot_tokens: SLOT_TOKENS,
            batch_tokens: BATCH_TOKENS,
            prompt_cache_mib: PROMPT_CACHE_MIB,
            verbosity: LOG_VERBOSITY,
        };
        let mut line = serde_json::to_vec(&instructions)?;
        line.push(b'\n');
        let Some(stdin) = self.lifeline.as_mut() else {
            return Ok(());
        };
        stdin.write_all(&line).await?;
        stdin.flush().await
    }

    /// Reads where it listens; none if it ended without saying so.
    async fn listening(&mut self) -> Option<String> {
        let mut lines = BufReader::new(self.hello.take()?.take(MAX_HELLO_BYTES)).lines();
        // Libraries may print lines of their own before.
        while let Ok(Some(line)) = lines.next_line().await {
            if let Ok(hello) = serde_json::from_str::<Hello>(&line) {
                return Some(hello.listening);
            }
        }
        None
    }

    async fn ended(mut self, deadline: Instant) -> StarterError {
        // Its streams have ended, so it is about to, unless it closed them itself.
        let waited = tokio::time::timeout_at(deadline, self.child.wait()).await;
        let Ok(Ok(status)) = waited else {
            return self.silent(Duration::ZERO).await;
        };
        StarterError::ServerExited {
            status,
            tail: self.log.tail().await,
        }
    }

    async fn silent(mut self, waited: Duration) -> StarterError {
        drop(self.lifeline.take());
        let _ = self.child.kill().await;
        StarterError::ServerSilent {
            waited_secs: waited.as_secs(),
            tail: self.log.tail().await,
        }
    }

    fn into_handle(self, address: StarterAddress) -> StarterHandle {
        StarterHandle {
            address,
            child: self.child,
            lifeline: self.lifeline,
            log: Some(self.log),
        }
    }
}

impl StarterHandle {
    /// Where it listens and what it wants to be shown.
    pub fn address(&self) -> &StarterAddress {
        &self.address
    }

    /// The child's process id, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Waits until the engine ends by itself. May be cancelled and called again.
    pub async fn wait(&mut self) -> std::io::Result<ServerExit> {
        let status = self.child.wait().await?;
        let tail = match self.log.take() {
            Some(log) => log.tail().await,
            None => String::new(),
        };
        Ok(ServerExit { status, tail })
    }

    /// Ends the engine: closes its input, asks it to leave, and kills it if it doesn't.
    pub async fn stop(mut self) -> std::io::Result<ExitStatus> {
        drop(self.lifeline.take());
        if let Ok(status) = timeout(Duration::from_secs(LEAVE_SECS), self.child.wait()).await {
            return status;
        }
        self.terminate();
        if let Ok(status) = timeout(Duration::from_secs(LEAVE_SECS), self.child.wait()).await {
            return status;
        }
        self.child.start_kill()?;
        self.child.wait().await
    }

    fn terminate(&self) {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok());
        if let Some(pid) = pid.and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
    }
}
