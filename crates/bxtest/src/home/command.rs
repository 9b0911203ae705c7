//! Runs one command in a home: bounded in time, its output captured, its process group its own.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::child::Child;
use super::dir::TestHome;
use super::procs;
use crate::fault::FaultPoint;

const DEFAULT_TIMEOUT: Duration = Duration::from_mins(1);
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// More output than any command of a test has.
const MAX_OUTPUT_BYTES: u64 = 64 * 1024 * 1024;

/// The environment that a command gets: nothing else is inherited.
const INHERITED: [&str; 6] = [
    "PATH",
    "LANG",
    "TERM",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "LLVM_PROFILE_FILE",
];

/// A command to run in a home.
#[derive(Debug)]
pub struct Cmd<'h> {
    home: &'h TestHome,
    command: Command,
    input: Vec<u8>,
    timeout: Duration,
}

/// What a command left behind.
#[derive(Debug)]
pub struct Output {
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
    /// How long it took.
    pub took: Duration,
}

impl<'h> Cmd<'h> {
    pub(super) fn new(home: &'h TestHome, program: &Path) -> Self {
        Self {
            home,
            command: prepared(home, program),
            input: Vec::new(),
            timeout: DEFAULT_TIMEOUT,
        }
    }

    /// One argument.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.command.arg(arg);
        self
    }

    /// Several arguments.
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.command.args(args);
        self
    }

    /// One variable of the environment.
    pub fn env(mut self, key: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(key, value);
        self
    }

    /// Makes the executables die at a fault point.
    pub fn fault(self, point: &FaultPoint) -> Self {
        let (key, value) = point.env();
        self.env(key, value)
    }

    /// Records the fault points that the executables pass.
    pub fn fault_log(self, log: &Path) -> Self {
        let (key, value) = FaultPoint::log_env(log);
        self.env(key, value)
    }

    /// What it reads from its standard input. Default nothing.
    pub fn input(mut self, input: impl Into<Vec<u8>>) -> Self {
        self.input = input.into();
        self
    }

    /// How long it may take. Default 60 seconds.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Puts the command under another program, such as strace, with these arguments before it.
    pub fn under(mut self, wrapper: &Path, wrapper_args: &[String]) -> Self {
        let mut wrapped = prepared(self.home, wrapper);
        wrapped
            .args(wrapper_args)
            .arg(self.command.get_program())
            .args(self.command.get_args());
        for (key, value) in self.command.get_envs() {
            if let Some(value) = value {
                wrapped.env(key, value);
            }
        }
        self.command = wrapped;
        self
    }

    /// Runs it to its end.
    ///
    /// # Panics
    /// When it can't be started, or runs for longer than it may; its process group is then killed.
    pub fn run(mut self) -> Output {
        let began = Instant::now();
        let name = self.command.get_program().display().to_string();
        self.command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = self
            .command
            .spawn()
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        self.home.track(child.id());
        let input = std::mem::take(&mut self.input);
        let mut stdin = child.stdin.take().expect("a piped standard input");
        // A command that reads nothing closes the pipe, which is no error here.
        let writer = std::thread::spawn(move || {
            let _ = std::io::Write::write_all(&mut stdin, &input);
        });
        let stdout = reader(child.stdout.take().expect("a piped standard output"));
        let stderr = reader(child.stderr.take().expect("a piped standard error"));
        let status = loop {
            if let Some(status) = child.try_wait().expect("a child to wait for") {
                break status;
            }
            if began.elapsed() > self.timeout {
                procs::end_family(child.id());
                let _ = child.wait();
                let (out, err) = (text(stdout), text(stderr));
                panic!(
                    "{name} ran longer than {:?}\nstdout:\n{out}\nstderr:\n{err}",
                    self.timeout
                );
            }
            std::thread::sleep(POLL_INTERVAL);
        };
        let took = began.elapsed();
        // Reaped: its id may be another process's soon.
        self.home.untrack(child.id());
        let _ = writer.join();
        Output {
            status,
            stdout: text(stdout),
            stderr: text(stderr),
            took,
        }
    }

    /// Starts it on a terminal of its own, where [`Child::type_line`] types; what the terminal shows
    /// is its standard output.
    pub fn spawn_on_terminal(self) -> Child<'h> {
        let words = as_shell_words(&self.command);
        let args = ["-q", "-e", "-c", &words, "/dev/null"].map(str::to_owned);
        let mut wrapped = Cmd::new(self.home, Path::new("script")).args(args);
        for (key, value) in self.command.get_envs() {
            if let Some(value) = value {
                wrapped.command.env(key, value);
            }
        }
        wrapped.command.stdin(Stdio::piped());
        wrapped.start()
    }

    /// Starts it and leaves it running; its output goes to files in the home.
    pub fn spawn(mut self) -> Child<'h> {
        self.command.stdin(Stdio::null());
        self.start()
    }

    fn start(mut self) -> Child<'h> {
        let (out, err) = Child::logs(self.home);
        let file = |path: &PathBuf| std::fs::File::create(path).expect("a log file in the home");
        self.command.stdout(file(&out)).stderr(file(&err));
        let name = self.command.get_program().display().to_string();
        let child = self
            .command
            .spawn()
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        self.home.track(child.id());
        Child::new(self.home, child, out, err)
    }
}

/// A program with its arguments as a shell reads them.
fn as_shell_words(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let quoted = words.map(|word| format!("'{}'", word.to_string_lossy().replace('\'', "'\\''")));
    quoted.collect::<Vec<_>>().join(" ")
}

fn prepared(home: &TestHome, program: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .env_clear()
        .process_group(0)
        .current_dir(home.path());
    for key in INHERITED {
        if let Some(value) = std::env::var_os(key) {
            command.env(key, value);
        }
    }
    command
        .env("BOXMAKER_HOME", home.path())
        .env("HOME", home.path());
    command
}

fn reader(pipe: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.take(MAX_OUTPUT_BYTES).read_to_end(&mut bytes);
        bytes
    })
}

fn text(reader: JoinHandle<Vec<u8>>) -> String {
    String::from_utf8_lossy(&reader.join().unwrap_or_default()).into_owned()
}

impl Output {
    /// The exit code; `None` when a signal ended it.
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// Panics with everything it said unless it ended well.
    pub fn success(self) -> Self {
        self.exited(0)
    }

    /// Panics with everything it said unless it ended with this code.
    pub fn exited(self, code: i32) -> Self {
        assert!(
            self.code() == Some(code),
            "ended with {:?} (signal {:?}) instead of {code}\nstdout:\n{}\nstderr:\n{}",
            self.code(),
            self.status.signal(),
            self.stdout,
            self.stderr
        );
        self
    }

    /// Its standard output as one JSON document.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| {
            panic!(
                "no JSON: {error}\nstdout:\n{}\nstderr:\n{}",
                self.stdout, self.stderr
            )
        })
    }
}
