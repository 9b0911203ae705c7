//! Makes system calls of a real process fail, through strace's injection.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::home::{Child, Cmd, TestHome};

const ATTACH_TIMEOUT: Duration = Duration::from_secs(20);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// One kind of failure to inject. Each process of the tree counts its own calls.
#[derive(Debug, Clone)]
pub struct Inject {
    syscalls: String,
    /// What happens in strace's words: `error=EIO` or `signal=KILL`.
    happens: String,
    when: String,
}

impl Inject {
    /// These system calls (separated by commas) fail with `error`, such as `EIO`, every time.
    pub fn error(syscalls: &str, error: &str) -> Self {
        Self {
            syscalls: syscalls.to_owned(),
            happens: format!("error={error}"),
            when: "1+".to_owned(),
        }
    }

    /// The process is killed as it enters one of these system calls: say which by [`Self::only`].
    pub fn kill(syscalls: &str) -> Self {
        Self {
            syscalls: syscalls.to_owned(),
            happens: "signal=KILL".to_owned(),
            when: "1+".to_owned(),
        }
    }

    /// Every `fsync` and `fdatasync` fails with EIO.
    pub fn failing_sync() -> Self {
        Self::error("fsync,fdatasync", "EIO")
    }

    /// Every write to a file fails with ENOSPC.
    pub fn full_disk() -> Self {
        Self::error("write,pwrite64,writev,pwritev", "ENOSPC")
    }

    /// Only the `nth` call of a process fails, counted from 1.
    pub fn only(mut self, nth: usize) -> Self {
        self.when = nth.to_string();
        self
    }

    /// The `nth` call of a process and all later ones fail.
    pub fn from(mut self, nth: usize) -> Self {
        self.when = format!("{nth}+");
        self
    }
}

/// Runs a command, or holds on to a process, with failures injected.
#[derive(Debug, Clone, Default)]
pub struct Strace {
    injects: Vec<Inject>,
    paths: Vec<PathBuf>,
    log: Option<PathBuf>,
}

impl Strace {
    /// No failures yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a failure.
    pub fn inject(mut self, inject: Inject) -> Self {
        self.injects.push(inject);
        self
    }

    /// Only calls on this file count and fail. May be given several times.
    pub fn on_path(mut self, path: &Path) -> Self {
        self.paths.push(path.to_owned());
        self
    }

    /// Writes strace's own record of the calls to this file.
    pub fn log(mut self, path: &Path) -> Self {
        self.log = Some(path.to_owned());
        self
    }

    fn args(&self) -> Vec<String> {
        let log = self
            .log
            .clone()
            .unwrap_or_else(|| PathBuf::from("/dev/null"));
        let mut args = vec!["-f".to_owned(), "-o".to_owned(), log.display().to_string()];
        for path in &self.paths {
            args.extend(["-P".to_owned(), path.display().to_string()]);
        }
        let calls: Vec<&str> = self
            .injects
            .iter()
            .map(|inject| inject.syscalls.as_str())
            .collect();
        args.extend(["-e".to_owned(), format!("trace={}", calls.join(","))]);
        for Inject {
            syscalls,
            happens,
            when,
        } in &self.injects
        {
            let inject = format!("inject={syscalls}:{happens}:when={when}");
            args.extend(["-e".to_owned(), inject]);
        }
        args
    }

    /// The command, run under strace from its first instruction, with every child it starts.
    pub fn wrap<'h>(&self, command: Cmd<'h>) -> Cmd<'h> {
        let mut args = self.args();
        args.extend(["-qq".to_owned(), "--".to_owned()]);
        command.under(&strace(), &args)
    }

    /// Injects into a process that runs already, until the guard is dropped.
    ///
    /// # Panics
    /// When strace can't attach to it.
    pub fn attach<'h>(&self, home: &'h TestHome, pid: u32) -> Child<'h> {
        let mut args = self.args();
        args.extend(["-p".to_owned(), pid.to_string()]);
        let tracer = home.program(&strace()).args(args).spawn();
        let traced = || {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let tracer_line = status.lines().find(|line| line.starts_with("TracerPid:"));
            tracer_line.is_some_and(|line| line.split_whitespace().nth(1) != Some("0"))
        };
        let end = Instant::now() + ATTACH_TIMEOUT;
        loop {
            let attached = tracer.stderr().contains("attached");
            // A process that is killed at its first call is gone as soon as it is held.
            if attached && (traced() || tracer.ended().is_some()) {
                return tracer;
            }
            assert!(
                Instant::now() < end && tracer.ended().is_none(),
                "strace can't attach to process {pid}: {}",
                tracer.stderr()
            );
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

/// Where strace is. Missing, it fails the test with the line to type: a skipped test shows nothing.
fn strace() -> PathBuf {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders)
        .map(|folder| folder.join("strace"))
        .find(|path| path.is_file())
        .unwrap_or_else(|| panic!("strace is missing; type: sudo apt-get install -y strace"))
}
