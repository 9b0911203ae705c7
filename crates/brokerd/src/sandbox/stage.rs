//! The stage: the first process in a sandbox. It gives up the rest of its rights, starts the
//! shell, and watches it; when it ends, the kernel kills whatever else is in there.

use super::bubblewrap::{WORK, WRITABLE};
use super::limits::{MAX_DESCRIPTORS, MAX_FILE_BYTES, MAX_MEMORY_BYTES, MAX_PROCESSES, NICENESS};
use super::usage::Usage;
use super::wire::{Ended, Order, Task, Word, receive, send};
use bxkit::confine::confine_command;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitOptions, WaitStatus, set_parent_process_death_signal,
    setpriority_process, setrlimit,
};
use std::io::{self, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

const SHELL: &str = "/bin/sh";
/// What the shell does first: it waits for a word, so that its priority is lowered before it can
/// start anything that would keep ours.
const WAIT_THEN_RUN: &str = "read -r _ && exec /bin/sh -c \"$1\" </dev/null";
/// The same for a program that is talked with: its input is where its output goes, a socket.
const WAIT_THEN_SERVE: &str = "read -r _ && exec \"$@\" <&1";
/// How often it is looked whether the shell has ended: soon at first, then less often.
const FIRST_LOOK: Duration = Duration::from_millis(1);
const LAST_LOOK: Duration = Duration::from_millis(20);
/// How often it is looked what all processes use together.
const USAGE_INTERVAL: Duration = Duration::from_millis(100);
/// The most ended processes that are buried between two looks.
const MAX_BURIED: usize = 4096;

/// Is the stage until the shell ends. Who started it is at the other end of standard input.
pub fn run() -> ExitCode {
    match act() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn act() -> io::Result<()> {
    // Bubblewrap is told the same; twice is safer than an orphan.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let control = UnixStream::from(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?);
    let order: Order = receive(BufReader::new(&control))?;
    match begin(&order) {
        Ok(shell) => {
            send(&control, &Word::Began)?;
            let ended = watch(shell, &control);
            send(&control, &Word::Ended(ended))
        }
        Err(why) => send(&control, &Word::Failed(why)),
    }
}

fn begin(order: &Order) -> Result<Pid, String> {
    limit(order.cpu_secs).map_err(|error| format!("its limits can't be set: {error}"))?;
    let writable: Vec<PathBuf> = WRITABLE.iter().map(PathBuf::from).collect();
    confine_command(&writable).map_err(|error| bxkit::report::chain(&error))?;
    let failed = |error: io::Error| format!("{SHELL} can't be started: {error}");
    let mut shell = Command::new(SHELL);
    match &order.task {
        Task::Command(command) => shell.args(["-c", WAIT_THEN_RUN, "sh", command]),
        Task::Program {
            command,
            environment,
        } => shell
            .args(["-c", WAIT_THEN_SERVE, "sh"])
            .args(command)
            .envs(environment),
    };
    let mut shell = shell
        .current_dir(WORK)
        .stdin(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let pid = i32::try_from(shell.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
    // The rest of the box comes first, and so does whoever watches.
    setpriority_process(Some(pid), NICENESS).map_err(|errno| failed(errno.into()))?;
    if let Some(mut gate) = shell.stdin.take() {
        gate.write_all(b"\n").map_err(failed)?;
    }
    Ok(pid)
}

/// Limits of each process. They bind this one too, which is far below them.
fn limit(cpu_secs: u64) -> io::Result<()> {
    for (resource, most) in [
        (Resource::Nproc, MAX_PROCESSES),
        (Resource::Fsize, MAX_FILE_BYTES),
        (Resource::Data, MAX_MEMORY_BYTES),
        (Resource::Nofile, MAX_DESCRIPTORS),
        (Resource::Cpu, cpu_secs),
    ] {
        let limit = Rlimit {
            current: Some(most),
            maximum: Some(most),
        };
        setrlimit(resource, limit)?;
    }
    Ok(())
}

/// Waits for the shell, buries orphans, and ends everything when it grows too large.
fn watch(shell: Pid, control: &UnixStream) -> Ended {
    let mut look = FIRST_LOOK;
    let mut usage_at = Instant::now();
    loop {
        if let Some(ended) = bury(shell) {
            return ended;
        }
        if Usage::is_crowded() {
            return Ended::Processes;
        }
        if Instant::now() >= usage_at {
            if let Some(ended) = too_much(Usage::of_all()) {
                return ended;
            }
            usage_at = Instant::now() + USAGE_INTERVAL;
        }
        if is_alone(control, look) {
            return Ended::Broken;
        }
        look = (look * 2).min(LAST_LOOK);
    }
}

/// Buries what has ended; says how the shell did, if that is among it.
fn bury(shell: Pid) -> Option<Ended> {
    for _ in 0..MAX_BURIED {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if pid == shell => return Some(how(status)),
            Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
            Ok(None) => return None,
            Err(_) => return Some(Ended::Broken),
        }
    }
    None
}

fn how(status: WaitStatus) -> Ended {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Ended::Exit(code),
        (None, Some(signal)) => Ended::Signal(signal),
        (None, None) => Ended::Broken,
    }
}

fn too_much(usage: Usage) -> Option<Ended> {
    (usage.memory_bytes > MAX_MEMORY_BYTES).then_some(Ended::Memory)
}

/// Waits a moment; yes if whoever started us is gone meanwhile.
fn is_alone(control: &UnixStream, moment: Duration) -> bool {
    let mut polled = [PollFd::new(control, PollFlags::IN)];
    let timeout = Timespec {
        tv_sec: 0,
        tv_nsec: moment.subsec_nanos().into(),
    };
    // Nothing more is ever said to us, so whatever comes is the end.
    matches!(poll(&mut polled, Some(&timeout)), Ok(ready) if ready > 0)
}
