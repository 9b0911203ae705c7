//! The launcher: takes jobs, builds a sandbox for each, and ends with whoever started it.
//!
//! It is not confined by Landlock, for it must mount; so it is small, has no access to tokens, and
//! shows a command only folders that it was told of at its start.

use super::bubblewrap::{PROGRAM, Sights, SystemFolder, arguments};
use super::capture::Capture;
use super::limits::{
    MAX_COMMAND_SECS, MAX_KEPT_BYTES, MAX_SANDBOXES, MAX_SERVICE_SECS, ROOT_NICENESS,
    SERVICE_KEEP_BYTES, STARTING_SECS,
};
use super::supervise::{Lines, Sandboxed};
use super::wire::{Ended, Job, Order, Ready, Report, Service, Setup, Task, receive, send};
use bxcore::id::SessionId;
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
        setup: receive(BufReader::new(&first.client))?,
        stage: std::env::current_exe()?,
        system: system_folders(),
    });
    send(&first.client, &Ready)?;
    drop(first);
    let running = Arc::new(AtomicUsize::new(0));
    while let Some(visit) = next()? {
        let (house, running) = (Arc::clone(&house), Arc::clone(&running));
        if running.fetch_add(1, Ordering::Relaxed) >= MAX_SANDBOXES {
            // brokerd runs fewer tools at once: whoever asks for more is not it.
            running.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        // The thread lives as long as its sandbox, which is told to die with it.
        let spawned = std::thread::Builder::new().spawn(move || {
            // A client that is gone wants no answer.
            let _ = answer(&house, visit);
            running.fetch_sub(1, Ordering::Relaxed);
        });
        spawned?;
    }
    Ok(())
}

/// What brokerd hands in with one message.
#[derive(Debug)]
struct Visit {
    /// Where the job comes from, and where its report goes.
    client: UnixStream,
    /// What a program is talked with through; none for a command.
    wire: Option<OwnedFd>,
}

/// The next one; none once brokerd is gone.
fn next() -> io::Result<Option<Visit>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
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
    let mut handed: Vec<OwnedFd> = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            handed.extend(rights);
        }
    }
    let mut handed = handed.into_iter();
    let client = handed.next().ok_or(io::ErrorKind::InvalidData)?;
    Ok(Some(Visit {
        client: UnixStream::from(client),
        wire: handed.next(),
    }))
}

fn answer(house: &House, visit: Visit) -> io::Result<()> {
    let Visit { client, wire } = visit;
    client.set_read_timeout(Some(Duration::from_secs(STARTING_SECS)))?;
    let from = BufReader::new(&client);
    let mut capture = Capture::new(SERVICE_KEEP_BYTES);
    let ended = match wire {
        None => {
            let job: Job = receive(from)?;
            capture = Capture::new(job.keep_bytes.min(MAX_KEPT_BYTES));
            house.run(&job, &mut capture, &client)
        }
        Some(wire) => {
            let service: Service = receive(from)?;
            house.serve(&service, wire, &mut capture, &client)
        }
    };
    let ended = ended.unwrap_or_else(Ended::Unavailable);
    let total_bytes = capture.total_bytes();
    let (head, tail) = capture.parts();
    let report = Report {
        ended,
        total_bytes,
        head_bytes: head.len(),
        tail_bytes: tail.len(),
    };
    let mut client = &client;
    send(client, &report)?;
    client.write_all(&head)?;
    client.write_all(&tail)
}

impl House {
    /// Runs a job; the error is why no sandbox was built.
    fn run(&self, job: &Job, capture: &mut Capture, client: &UnixStream) -> Result<Ended, String> {
        let work = self.workspace(&job.session)?;
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
            work: Some(&work),
            read_only: &[],
            owner: &owner,
        });
        let timeout_secs = job.timeout_secs.min(MAX_COMMAND_SECS);
        let order = Order {
            task: Task::Command(job.command.clone()),
            cpu_secs: timeout_secs + CPU_GRACE_SECS,
        };
        let started = start(words, &order, None).map_err(not_started)?;
        started.run_out(Duration::from_secs(timeout_secs), capture, client)
    }

    /// Runs a program that is talked with; the error is why no sandbox was built.
    fn serve(
        &self,
        service: &Service,
        wire: OwnedFd,
        capture: &mut Capture,
        client: &UnixStream,
    ) -> Result<Ended, String> {
        let program = self.setup.programs.get(&service.program);
        let program = program.ok_or_else(|| "there is no such program".to_owned())?;
        let session = service.session.as_ref();
        let work = session.map(|id| self.workspace(id)).transpose()?;
        if let Some(missing) = program.read_only.iter().find(|path| !path.is_dir()) {
            return Err(format!("there is no folder `{}`", missing.display()));
        }
        let words = arguments(&Sights {
            system: &self.system,
            stage: &self.stage,
            work: work.as_deref(),
            read_only: &program.read_only,
            owner: &[],
        });
        let timeout_secs = service.timeout_secs.min(MAX_SERVICE_SECS);
        let order = Order {
            task: Task::Program {
                command: program.command.clone(),
                environment: program.environment.clone(),
            },
            cpu_secs: timeout_secs + CPU_GRACE_SECS,
        };
        let started = start(words, &order, Some(wire)).map_err(not_started)?;
        started.run_out(Duration::from_secs(timeout_secs), capture, client)
    }

    /// A session's workspace.
    fn workspace(&self, session: &SessionId) -> Result<PathBuf, String> {
        let work = self.setup.sessions.join(session.as_str());
        if is_folder(&work) {
            Ok(work)
        } else {
            Err("the session has no workspace".to_owned())
        }
    }
}

fn not_started(error: io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "bubblewrap (bwrap) is not installed".to_owned(),
        _ => format!("bubblewrap can't be started: {error}"),
    }
}

/// Starts bubblewrap. Standard output and error are one pipe, so that their order is kept, unless
/// there is a wire: then the output is that.
fn start(
    words: Vec<std::ffi::OsString>,
    order: &Order,
    wire: Option<OwnedFd>,
) -> io::Result<Sandboxed> {
    let (control, theirs) = UnixStream::pair()?;
    let (output, writer) = io::pipe()?;
    let stdout = match wire {
        Some(wire) => Stdio::from(wire),
        None => Stdio::from(writer.try_clone()?),
    };
    let bubblewrap = Command::new(PROGRAM)
        .args(words)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(stdout)
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
