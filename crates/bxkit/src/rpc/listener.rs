//! A Unix socket that is ours alone.

use bxcore::code::Code;
use bxcore::problem::Problem;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// How many connections wait to be accepted.
const BACKLOG: i32 = 1024;

/// A bound socket, not yet served; removes its file when dropped.
///
/// Binding blocks for a moment and needs no async runtime, so that a role can bind before it
/// confines itself. Connections made before it is served wait in the backlog.
#[derive(Debug)]
pub struct SocketListener {
    inner: UnixListener,
    file: SocketFile,
}

/// Why a socket can't be bound.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Somebody listens there.
    #[error("another process listens at `{}`", .0.display())]
    InUse(PathBuf),
    /// Something that is no socket stands there.
    #[error("`{}` is in the way: it is not a socket", .0.display())]
    NotASocket(PathBuf),
    /// The system refused.
    #[error("`{}` can't be bound", path.display())]
    System {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl From<BindError> for Problem {
    fn from(error: BindError) -> Self {
        let (code, hint) = match &error {
            BindError::InUse(_) => (
                Code::HomeHeld,
                "`boxmaker down` stops what runs in this home",
            ),
            BindError::NotASocket(_) => (Code::HomeUnusable, "look at it, then remove it"),
            BindError::System { .. } => (
                Code::HomeUnusable,
                "check the rights and the space of the run folder",
            ),
        };
        Self::new(code, "A socket can't be opened")
            .detail(crate::report::chain(&error))
            .hint(hint)
    }
}

impl SocketListener {
    /// Binds a socket with mode 0600; one that nobody listens at any more is replaced.
    pub fn bind(path: &Path) -> Result<Self, BindError> {
        let failed = |source| BindError::System {
            path: path.to_owned(),
            source,
        };
        clear_stale(path)?;
        let inner = UnixListener::bind(path).map_err(failed)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
        // The standard library's backlog is too short for a burst of callers.
        rustix::net::listen(&inner, BACKLOG).map_err(|errno| failed(errno.into()))?;
        inner.set_nonblocking(true).map_err(failed)?;
        let found = path.symlink_metadata().map_err(failed)?;
        let file = SocketFile {
            path: path.to_owned(),
            identity: (found.dev(), found.ino()),
        };
        Ok(Self { inner, file })
    }

    /// Where it is bound.
    pub fn path(&self) -> &Path {
        &self.file.path
    }

    /// The listener for the current runtime, and the guard that removes the file.
    pub(super) fn into_tokio(self) -> io::Result<(tokio::net::UnixListener, SocketFile)> {
        Ok((tokio::net::UnixListener::from_std(self.inner)?, self.file))
    }
}

/// Removes the socket's file when dropped, if it is still the one that was bound.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let found = self.path.symlink_metadata().ok();
        if found.is_some_and(|found| (found.dev(), found.ino()) == self.identity) {
            // A confined role may not remove it; the next to bind, or the supervisor, does.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Removes a socket that a process left behind, and nothing else.
fn clear_stale(path: &Path) -> Result<(), BindError> {
    let failed = |source| BindError::System {
        path: path.to_owned(),
        source,
    };
    let found = match path.symlink_metadata() {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(failed(source)),
    };
    if !found.file_type().is_socket() {
        return Err(BindError::NotASocket(path.to_owned()));
    }
    match try_connect(path) {
        // A full backlog means that somebody listens, only slowly.
        Ok(()) | Err(Errno::AGAIN) => Err(BindError::InUse(path.to_owned())),
        Err(Errno::CONNREFUSED) => std::fs::remove_file(path).map_err(failed),
        Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(failed(errno.into())),
    }
}

fn try_connect(path: &Path) -> Result<(), Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)
}
