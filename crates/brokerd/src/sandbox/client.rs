//! brokerd's side: starting the launcher, and asking it to run a command. Blocks.

use super::LAUNCHER_WORD;
use super::error::SandboxError;
use super::limits::{
    KILLING_SECS, MAX_COMMAND_SECS, MAX_KEPT_BYTES, MAX_SERVICE_SECS, STARTING_SECS,
};
use super::serving::Serving;
use super::wire::{Ended, Job, Program, Ready, Report, Service, Setup, receive, send};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
    sendmsg, socketpair,
};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, BufReader, IoSlice, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// How the launcher is started, and what it may show to commands.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The executable that is launcher and stage, told by `role launcher` and `role sandbox`.
    pub program: PathBuf,
    /// Where it finds bubblewrap.
    pub search_path: OsString,
    /// The folder of the sessions' workspaces.
    pub sessions: PathBuf,
    /// The owner's folders, by the name under which they are seen.
    pub owner: BTreeMap<String, PathBuf>,
    /// Programs that may be talked with, by the name that they are asked for by.
    pub programs: BTreeMap<String, Program>,
}

/// Runs commands in sandboxes, or says why it can't. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Sandbox {
    state: Arc<State>,
}

#[derive(Debug)]
enum State {
    Off(String),
    On {
        /// Each message on it brings the launcher one end of a new connection. Its end is the
        /// launcher's end.
        door: OwnedFd,
    },
}

/// What came of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// How it ended.
    pub ended: Ended,
    /// How much it wrote, in bytes.
    pub total_bytes: u64,
    /// The start of what it wrote.
    pub head: Vec<u8>,
    /// The end of it; what is not in either was left out.
    pub tail: Vec<u8>,
}

impl Ran {
    /// Reads what the launcher reports at the end.
    pub(super) fn receive(from: &UnixStream) -> io::Result<Self> {
        let mut answer = BufReader::new(from);
        let report: Report = receive(&mut answer)?;
        let mut part = |bytes: usize| {
            let mut part = vec![0; bytes.min(MAX_KEPT_BYTES)];
            answer.read_exact(&mut part).map(|()| part)
        };
        Ok(Self {
            head: part(report.head_bytes)?,
            tail: part(report.tail_bytes)?,
            ended: report.ended,
            total_bytes: report.total_bytes,
        })
    }
}

impl Sandbox {
    /// One that runs nothing, and why.
    pub fn off(why: impl Into<String>) -> Self {
        Self {
            state: Arc::new(State::Off(why.into())),
        }
    }

    /// Starts the launcher; to be called before this process is confined, for the launcher must
    /// be able to mount. It ends when the last clone of this is dropped, or this process dies.
    pub fn start(launch: &Launch) -> Result<Self, SandboxError> {
        let door = start_launcher(launch).map_err(SandboxError::Launcher)?;
        let setup = Setup {
            sessions: launch.sessions.clone(),
            owner: launch.owner.clone(),
            programs: launch.programs.clone(),
        };
        let sandbox = Self {
            state: Arc::new(State::On { door }),
        };
        let answered = sandbox.connect(STARTING_SECS).and_then(|stream| {
            send(&stream, &setup)?;
            receive::<Ready>(BufReader::new(&stream))
        });
        answered.map_err(SandboxError::Launcher)?;
        Ok(sandbox)
    }

    /// Runs a command to its end. Dropping out in the middle, by whatever death, kills it.
    ///
    /// # Errors
    /// It was not run: no sandbox can be built, or the launcher is gone.
    pub fn run(&self, job: &Job) -> Result<Ran, SandboxError> {
        let job = Job {
            timeout_secs: job.timeout_secs.min(MAX_COMMAND_SECS),
            keep_bytes: job.keep_bytes.min(MAX_KEPT_BYTES),
            ..job.clone()
        };
        if let State::Off(why) = &*self.state {
            return Err(SandboxError::Unavailable(why.clone()));
        }
        let ran = self.ask(&job).map_err(SandboxError::Launcher)?;
        match ran.ended {
            Ended::Unavailable(why) => Err(SandboxError::Unavailable(why)),
            _ => Ok(ran),
        }
    }

    /// Starts a program that is talked with. Whether it could be started shows at its end.
    ///
    /// # Errors
    /// Nothing is run here, or the launcher is gone.
    pub fn serve(&self, service: &Service) -> Result<Serving, SandboxError> {
        if let State::Off(why) = &*self.state {
            return Err(SandboxError::Unavailable(why.clone()));
        }
        let service = Service {
            timeout_secs: service.timeout_secs.min(MAX_SERVICE_SECS),
            ..service.clone()
        };
        self.begin(&service).map_err(SandboxError::Launcher)
    }

    fn begin(&self, service: &Service) -> io::Result<Serving> {
        let (wire, theirs) = UnixStream::pair()?;
        // Asked for its end it answers in the time that killing may take.
        let control = self.knock(STARTING_SECS + 2 * KILLING_SECS, Some(&theirs))?;
        send(&control, service)?;
        Ok(Serving::new(wire, control))
    }

    fn ask(&self, job: &Job) -> io::Result<Ran> {
        let stream = self.connect(job.timeout_secs + STARTING_SECS + 2 * KILLING_SECS)?;
        send(&stream, job)?;
        Ran::receive(&stream)
    }

    fn connect(&self, timeout_secs: u64) -> io::Result<UnixStream> {
        self.knock(timeout_secs, None)
    }

    /// Hands the launcher one end of a new connection, and the wire to a program where there is one.
    fn knock(&self, timeout_secs: u64, wire: Option<&UnixStream>) -> io::Result<UnixStream> {
        let State::On { door } = &*self.state else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        let (ours, theirs) = UnixStream::pair()?;
        let timeout = Some(Duration::from_secs(timeout_secs));
        ours.set_read_timeout(timeout)?;
        ours.set_write_timeout(timeout)?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let rights: Vec<BorrowedFd<'_>> = std::iter::once(theirs.as_fd())
            .chain(wire.map(AsFd::as_fd))
            .collect();
        if !control.push(SendAncillaryMessage::ScmRights(&rights)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        sendmsg(
            door,
            &[IoSlice::new(b"r")],
            &mut control,
            SendFlags::NOSIGNAL,
        )?;
        Ok(ours)
    }
}

/// Starts it with the other end of the door as its standard input.
fn start_launcher(launch: &Launch) -> io::Result<OwnedFd> {
    let (ours, theirs) = socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?;
    // Never waited for: it lives as long as we do. If it dies before, it is buried with us.
    Command::new(&launch.program)
        .arg0("boxmaker")
        .args(["role", LAUNCHER_WORD])
        .env_clear()
        .env("PATH", &launch.search_path)
        .current_dir("/")
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::null())
        .spawn()?;
    Ok(ours)
}
