//! The folders that tools may read, and opening what is in them.
//!
//! A session sees one tree: its own folder, with the owner's folders in it under their names.
//! Every open is resolved by the kernel below the folder it starts from, so that neither a link
//! nor a swap in between leads out.

mod target;

use super::output::ToolError;
use super::place::RelativePath;
use super::touch::{Place, Places, own_key};
use crate::config::Workspace;
use bxcore::id::SessionId;
use bxcore::label::Label;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
pub use target::MAX_WRITTEN_BYTES;
pub(super) use target::{Target, WriteMode};

const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);
/// NONBLOCK: opening a FIFO must not hang before its kind has been looked at. NOCTTY: nor may a
/// terminal become ours.
const ANYTHING: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);
/// How often an open is tried again when the kernel lost a race with a rename.
const MAX_OPEN_TRIES: usize = 8;

/// A folder that tools may read.
#[derive(Debug)]
pub struct Root {
    /// The name under which it is seen; the session's own folder has none.
    pub name: Option<String>,
    /// What everything that is read in it carries.
    pub label: Label,
    /// Its lasting name, by which labels of files in it are kept.
    pub key: String,
    /// Whether tools may write in it.
    pub writable: bool,
    folder: OwnedFd,
}

/// All folders that tools may read.
#[derive(Debug)]
pub struct Workspaces {
    /// Where the sessions' own folders are.
    sessions: OwnedFd,
    owner: Vec<Arc<Root>>,
}

/// What one session sees.
#[derive(Debug, Clone)]
pub struct View {
    own: Arc<Root>,
    owner: Vec<Arc<Root>>,
}

impl Workspaces {
    /// Opens the folder of the sessions' workspaces and the owner's folders.
    ///
    /// A folder of the owner's that is not there (an unplugged disk) is left out, with a warning.
    pub fn open(sessions: &Path, owner: &[Workspace]) -> io::Result<Self> {
        let sessions = rustix::fs::open(sessions, FOLDER, Mode::empty())?;
        let mut roots = Vec::new();
        for workspace in owner {
            match rustix::fs::open(&workspace.path, FOLDER, Mode::empty()) {
                Ok(folder) => roots.push(Arc::new(Root {
                    name: workspace.visible_name().map(str::to_owned),
                    label: workspace.label(),
                    key: owner_key(&workspace.path),
                    writable: workspace.writable,
                    folder,
                })),
                Err(errno) => tracing::warn!(
                    path = %workspace.path.display(),
                    error = %io::Error::from(errno),
                    "a workspace can't be opened; tools won't see it until the next start"
                ),
            }
        }
        Ok(Self {
            sessions,
            owner: roots,
        })
    }

    /// The join of everything that any tool here may tell of.
    pub fn whole_label(&self) -> Label {
        self.owner
            .iter()
            .fold(Label::OWNER, |label, root| label.join(root.label))
    }

    /// The owner's folders, as far as labels are concerned.
    pub fn places(&self) -> Places {
        let named = self.owner.iter().filter_map(|root| {
            Some(Place {
                name: root.name.clone()?,
                key: root.key.clone(),
                label: root.label,
            })
        });
        Places(named.collect())
    }

    /// What a session sees; its own folder is made if it is not there.
    pub fn of(&self, session: &SessionId) -> io::Result<View> {
        let name = session.as_str();
        match rustix::fs::mkdirat(&self.sessions, name, Mode::from_raw_mode(0o700)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
        let folder = open_below(self.sessions.as_fd(), name, FOLDER | OFlags::NOFOLLOW)?;
        let own = Root {
            name: None,
            label: Label::OWNER,
            key: own_key(session),
            writable: true,
            folder,
        };
        Ok(View {
            own: Arc::new(own),
            owner: self.owner.clone(),
        })
    }
}

impl View {
    /// The owner's folders, by name.
    pub fn owner_roots(&self) -> impl Iterator<Item = &Arc<Root>> {
        self.owner.iter()
    }

    /// The session's own folder.
    pub fn own_root(&self) -> &Arc<Root> {
        &self.own
    }

    /// The folder that a path is in, and the path from there. A folder of the owner's hides what
    /// has the same name in the session's own.
    pub fn resolve(&self, path: &RelativePath) -> (Arc<Root>, RelativePath) {
        if let Some((first, rest)) = path.split_first() {
            let named = |root: &&Arc<Root>| root.name.as_deref() == Some(first);
            if let Some(root) = self.owner.iter().find(named) {
                return (Arc::clone(root), rest);
            }
        }
        (Arc::clone(&self.own), path.clone())
    }

    /// The join of everything that a look over the whole tree may tell of.
    pub fn whole_label(&self) -> Label {
        self.owner
            .iter()
            .fold(self.own.label, |label, root| label.join(root.label))
    }
}

/// Something that was opened, and is known for what it is.
#[derive(Debug)]
pub(super) enum Opened {
    File { file: File, bytes: u64 },
    Folder(OwnedFd),
    Other(&'static str),
}

impl Root {
    /// Opens what a path leads to; links are followed as long as they stay in the folder.
    pub(super) fn open(&self, path: &RelativePath) -> Result<Opened, ToolError> {
        let shown = self.shown(path);
        let opened =
            open_below(self.folder.as_fd(), &path.to_system(), ANYTHING).and_then(Opened::of);
        opened.map_err(|errno| match errno {
            // The kernel's word for a path that would leave, be it by a link or by a race.
            Errno::XDEV => ToolError::Outside {
                path: shown,
                why: "a link leads out of it",
            },
            Errno::LOOP => ToolError::Outside {
                path: shown,
                why: "its links lead nowhere",
            },
            Errno::NOENT | Errno::NOTDIR => ToolError::Missing(shown),
            // What opening a socket, or a device that is not there, ends with.
            Errno::NXIO | Errno::NODEV => ToolError::WrongKind {
                path: shown,
                is: NOT_A_FILE,
            },
            errno => ToolError::System {
                path: shown,
                source: errno.into(),
            },
        })
    }

    /// Whether a link lies on the way, or at its end.
    pub(super) fn passes_link(&self, path: &RelativePath) -> bool {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let path = path.to_system();
        let opened = rustix::fs::openat2(&self.folder, path, flags, Mode::empty(), resolve);
        matches!(opened, Err(Errno::LOOP))
    }

    /// A path as the model knows it: with the folder's name in front.
    pub(super) fn shown(&self, path: &RelativePath) -> String {
        match &self.name {
            Some(name) if path.is_top() => name.clone(),
            Some(name) => format!("{name}/{}", path.to_system()),
            None => path.to_system(),
        }
    }
}

/// The lasting name of a folder of the owner's: where it really is.
fn owner_key(path: &Path) -> String {
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    format!("owner:{}", path.display())
}

/// What a model is told of a FIFO, a socket or a device.
pub(super) const NOT_A_FILE: &str = "neither a file nor a folder, and is not read";

impl Opened {
    fn of(fd: OwnedFd) -> Result<Self, Errno> {
        let stat = rustix::fs::fstat(&fd)?;
        Ok(match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Self::File {
                file: fd.into(),
                bytes: u64::try_from(stat.st_size).unwrap_or(0),
            },
            FileType::Directory => Self::Folder(fd),
            _ => Self::Other(NOT_A_FILE),
        })
    }

    /// Opens an entry of an open folder without following a link; for walks over a tree.
    pub(super) fn entry(folder: BorrowedFd<'_>, name: &std::ffi::CStr) -> Result<Self, Errno> {
        // Looked at before it is opened: opening a device can have effects.
        let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile | FileType::Directory => {}
            _ => return Ok(Self::Other(NOT_A_FILE)),
        }
        Self::of(rustix::fs::openat(
            folder,
            name,
            ANYTHING | OFlags::NOFOLLOW,
            Mode::empty(),
        )?)
    }
}

fn open_below(folder: BorrowedFd<'_>, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let mut tries = 1;
    loop {
        match rustix::fs::openat2(folder, path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) if tries < MAX_OPEN_TRIES => tries += 1,
            other => return other,
        }
    }
}
