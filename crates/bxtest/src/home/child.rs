//! A process that a test started and left running.

use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ExitStatus};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::dir::TestHome;
use super::procs;

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// A running child. Dropping it kills it and what descends from it.
#[derive(Debug)]
pub struct Child<'h> {
    home: &'h TestHome,
    process: Mutex<std::process::Child>,
    pid: u32,
    stdin: Mutex<Option<ChildStdin>>,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl<'h> Child<'h> {
    pub(super) fn new(
        home: &'h TestHome,
        mut child: std::process::Child,
        stdout: PathBuf,
        stderr: PathBuf,
    ) -> Self {
        Self {
            home,
            pid: child.id(),
            stdin: Mutex::new(child.stdin.take()),
            process: Mutex::new(child),
            stdout,
            stderr,
        }
    }

    /// Fresh files for a child's output.
    pub(super) fn logs(home: &TestHome) -> (PathBuf, PathBuf) {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::SeqCst);
        let file = |kind: &str| home.path().join(format!("child-{number}.{kind}"));
        (file("out"), file("err"))
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Types a line on its terminal.
    ///
    /// # Panics
    /// It was not started on one, or is gone.
    pub fn type_line(&self, line: &str) {
        let mut stdin = self.stdin.lock().unwrap_or_else(PoisonError::into_inner);
        let stdin = stdin.as_mut().expect("a terminal to type on");
        let typed = std::io::Write::write_all(stdin, format!("{line}\n").as_bytes());
        typed.expect("a terminal that takes a line");
    }

    /// What it wrote to standard output so far.
    pub fn stdout(&self) -> String {
        read(&self.stdout)
    }

    /// What it wrote to standard error so far.
    pub fn stderr(&self) -> String {
        read(&self.stderr)
    }

    /// How it ended, when it has.
    pub fn ended(&self) -> Option<ExitStatus> {
        let mut child = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        child.try_wait().expect("a child to wait for")
    }

    /// Waits until `holds` does.
    ///
    /// # Panics
    /// When the child ends first, or it takes longer than 30 seconds.
    pub fn until(&self, what: &str, holds: impl Fn() -> bool) {
        let end = Instant::now() + DEFAULT_TIMEOUT;
        while !holds() {
            let ended = self.ended();
            assert!(
                ended.is_none() && Instant::now() < end,
                "waited in vain: {what} (ended: {ended:?})\nstdout:\n{}\nstderr:\n{}",
                self.stdout(),
                self.stderr()
            );
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// When it takes longer than 30 seconds.
    pub fn wait(&self) -> ExitStatus {
        let end = Instant::now() + DEFAULT_TIMEOUT;
        loop {
            if let Some(status) = self.ended() {
                return status;
            }
            assert!(
                Instant::now() < end,
                "does not end\nstdout:\n{}\nstderr:\n{}",
                self.stdout(),
                self.stderr()
            );
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Asks it to end, as a service manager does, and waits.
    pub fn terminate(&self) -> ExitStatus {
        procs::signal(self.pid, Signal::TERM);
        self.wait()
    }

    /// Interrupts it, as Ctrl-C does, and waits.
    pub fn interrupt(&self) -> ExitStatus {
        procs::signal(self.pid, Signal::INT);
        self.wait()
    }

    /// Kills it alone, as the kernel would, and waits; its children live on.
    pub fn kill9(&self) -> ExitStatus {
        procs::kill(self.pid);
        self.wait()
    }
}

impl Drop for Child<'_> {
    fn drop(&mut self) {
        // The ended child is reaped before its id could be another's.
        if self.ended().is_none() {
            procs::end_family(self.pid);
            let mut child = self.process.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = child.wait();
        }
        self.home.untrack(self.pid);
    }
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
}
