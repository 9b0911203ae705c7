//! The launcher: takes jobs, builds a sandbox for each, and ends with whoever started it.
//!
//! It is not confined by Landlock, for it must mount; so it is small, has no access to tokens, and
//! shows a command only folders that it was told of at its start.

use super::bubblewrap::{PROGRAM, Sights, SystemFolder, arguments};
use super::capture::Capture;
use super::limits::{
    MAX_COMMAND_SECS, MAX_KEPT_BYTES, MAX_SANDBOXES, ROOT_NICENESS, STARTING_SECS,
};
use super::supervise::{Lines, Sandboxed};
use super::wire::{Ended, Job, Order, Ready, Report, Setup, receive, send};
use bxkit::confine::confine_launcher;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::setpriority_process;
use std::io::{self, BufReader, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Folders at the root that programs in `/usr` need, where the machine has them.
const SYSTEM_FOLDERS: &[&str] = &["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];
/// How much processor time a command may use beyond its time on the clock, in seconds: a process
/// that computes on several cores is ended by the clock.
const CPU_GRACE_SECS: u64 = 5;

/// The first descriptor after the three that every process has.
const FIRST_OTHER_DESCRIPTOR: i32 = 3;

/// Is the launcher until standard input ends.
pub fn run() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Standard error is brokerd's log.
            let _ = writeln!(io::stderr(), "launcher: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What every sandbox has in common.
#[derive(Debug)]
struct House {
    setup: Setup,
    stage: PathBuf,
    system: Vec<SystemFolder>,
}

fn serve() -> io::Result<()> {
    // What was left open by whoever started whoever started us would reach every command.
    close_fds::set_fds_cloexec(FIRST_OTHER_DESCRIPTOR, &[]);
    if rustix::process::geteuid().is_root() {
        // In a container it may not be allowed, and then the limit comes later.
        let _ = setpriority_process(None, ROOT_NICENESS);
    }
    confine_launcher().map_err(|error| io::Error::other(bxkit::report::chain(&error)))?;
    let Some(first) = next()? else { return Ok(()) };
    let house = Arc::new(House {
        setup: receive(BufReader::new(&first))?,
        stage: std::env::current_exe()?,
        system: system_folders(),
    });
    send(&first, &Ready)?;
    drop(first);
    let running = Arc::new(AtomicUsize::new(0));
    while let Some(client) = next()? {
        let (house, running) = (Arc::clone(&house), Arc::clone(&running));
        if running.fetch_add(1, Ordering::Relaxed) >= MAX_SANDBOXES {
            // brokerd runs fewer tools at once: whoever asks for more is not it.
            running.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        // The thread lives as long as its sandbox, which is told to die with it.
        let spawned = std::thread::Builder::new().spawn(move || {
            // A client that is gone wants no answer.
            let _ = answer(&house, &client);
            running.fetch_sub(1, Ordering::Relaxed);
        });
        spawned?;
    }
    Ok(())
}

/// The next connection; none once brokerd is gone.
fn next() -> io::Result<Option<UnixStream>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    loop {
        let received = recvmsg(
            rustix::stdio::stdin(),
            &mut [IoSliceMut::new(&mut byte)],
            &mut control,
            RecvFlags::CMSG_CLOEXEC,
        );
        match received {
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::CONNRESET) => return Ok(None),
            Err(errno) => return Err(errno.into()),
            Ok(message) if message.bytes == 0 => return Ok(None),
            Ok(_) => break,
        }
    }
    let rights = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut rights) => rights.next(),
        _ => None,
    });
    let stream = rights.map(UnixStream::from);
    stream
        .map(Some)
        .ok_or_else(|| io::ErrorKind::InvalidData.into())
}

fn answer(house: &House, client: &UnixStream) -> io::Result<()> {
    client.set_read_timeout(Some(Duration::from_secs(STARTING_SECS)))?;
    let job: Job = receive(BufReader::new(client))?;
    let mut capture = Capture::new(job.keep_bytes.min(MAX_KEPT_BYTES));
    let ended = house
        .run(&job, &mut capture, client)
        .unwrap_or_else(Ended::Unavailable);
    let total_bytes = capture.total_bytes();
    let (head, tail) = capture.parts();
    let report = Report {
        ended,
        total_bytes,
        head_bytes: head.len(),
        tail_bytes: tail.len(),
    };
    let mut client = client;
    send(client, &report)?;
    client.write_all(&head)?;
    client.write_all(&tail)
}

impl House {
    /// Runs a job; the error is why no sandbox was built.
    fn run(&self, job: &Job, capture: &mut Capture, client: &UnixStream) -> Result<Ended, String> {
        let work = self.setup.sessions.join(job.session.as_str());
        if !is_folder(&work) {
            return Err("the session has no workspace".to_owned());
        }
        let owner: Vec<(&str, &Path)> = self
            .setup
            .owner
            .iter()
            .filter(|(name, path)| job.folders.contains(name) && path.is_dir())
            .map(|(name, path)| (name.as_str(), path.as_path()))
            .collect();
        let words = arguments(&Sights {
            system: &self.system,
            stage: &self.stage,
            work: &work,
            owner: &owner,
        });
        let timeout_secs = job.timeout_secs.min(MAX_COMMAND_SECS);
        let order = Order {
            command: job.command.clone(),
            cpu_secs: timeout_secs + CPU_GRACE_SECS,
        };
        let started = start(words, &order).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => "bubblewrap (bwrap) is not installed".to_owned(),
            _ => format!("bubblewrap can't be started: {error}"),
        })?;
        started.run_out(Duration::from_secs(timeout_secs), capture, client)
    }
}

/// Starts bubblewrap. Standard output and error are one pipe, so that their order is kept.
fn start(words: Vec<std::ffi::OsString>, order: &Order) -> io::Result<Sandboxed> {
    let (control, theirs) = UnixStream::pair()?;
    let (output, writer) = io::pipe()?;
    let bubblewrap = Command::new(PROGRAM)
        .args(words)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(writer.try_clone()?)
        .stderr(writer)
        .spawn()?;
    control.set_write_timeout(Some(Duration::from_secs(STARTING_SECS)))?;
    // One that died has read nothing; what it said tells why.
    let _ = send(&control, order);
    control.set_nonblocking(true)?;
    Ok(Sandboxed {
        bubblewrap,
        output: Some(output),
        control: Some(Lines::new(control)),
    })
}

/// Whether it is a folder itself, and not a link to one.
fn is_folder(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}

fn system_folders() -> Vec<SystemFolder> {
    let look = |path: &&'static str| match std::fs::read_link(path) {
        Ok(target) => Some(SystemFolder::Link(path, target.into())),
        Err(_) => is_folder(Path::new(path)).then_some(SystemFolder::Folder(path)),
    };
    SYSTEM_FOLDERS.iter().filter_map(look).collect()
}
