//! Writing a file below a folder: beside it first, then put in its place in one step.
//!
//! No link is ever followed: each part of the path is opened by itself, and refused if it is one.

use super::Root;
use crate::tools::output::ToolError;
use crate::tools::place::RelativePath;
use bxcore::text::hex;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;
use serde::Deserialize;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;

/// The longest file that is left behind, in bytes.
pub const MAX_WRITTEN_BYTES: u64 = 16 * 1024 * 1024;

const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
const NEW_FILE: OFlags = OFlags::WRONLY
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
const FOLDER_MODE: Mode = Mode::from_raw_mode(0o700);
const FILE_MODE: u32 = 0o600;
/// The rights that a file keeps when it is replaced; never those that make it run as another.
const KEPT_MODE: u32 = 0o777;
const RANDOM_BYTES: usize = 8;

/// What happens to a file that is there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::tools) enum WriteMode {
    /// It is an error.
    #[default]
    Create,
    /// It is replaced.
    Replace,
    /// It is added to.
    Append,
}

/// A file to be written: its folder, open, and its name.
#[derive(Debug)]
pub(in crate::tools) struct Target {
    folder: OwnedFd,
    name: String,
    shown: String,
}

impl Target {
    /// Opens the folder that a file is to be in, making what is missing of it.
    pub(in crate::tools) fn of(root: &Root, path: &RelativePath) -> Result<Self, ToolError> {
        let shown = root.shown(path);
        let failed = |errno: Errno| match errno {
            Errno::LOOP | Errno::NOTDIR => ToolError::WrongKind {
                path: shown.clone(),
                is: "behind a link or a file, where nothing is written",
            },
            errno => write_error(&shown, errno.into()),
        };
        let system = path.to_system();
        let mut parts: Vec<&str> = system.split('/').collect();
        let name = parts.pop().filter(|_| !path.is_top());
        let Some(name) = name.map(str::to_owned) else {
            let is = "a folder, not a file";
            return Err(ToolError::WrongKind { path: shown, is });
        };
        let mut folder = root
            .folder
            .try_clone()
            .map_err(|e| write_error(&shown, e))?;
        for part in parts {
            folder = enter(&folder, part).map_err(failed)?;
        }
        Ok(Self {
            folder,
            name,
            shown,
        })
    }

    /// Writes it, and gives its length in bytes.
    pub(in crate::tools) fn write(
        &self,
        content: &[u8],
        mode: WriteMode,
    ) -> Result<u64, ToolError> {
        let found = self.found()?;
        let mut whole = Vec::new();
        if let Some(found) = &found {
            match mode {
                WriteMode::Replace => {}
                WriteMode::Append => whole = self.content(found)?,
                // Made once already, by this call before a crash: then it is done.
                WriteMode::Create if self.content(found)? == content => {
                    return Ok(content.len() as u64);
                }
                WriteMode::Create => return Err(ToolError::Exists(self.shown.clone())),
            }
        }
        whole.extend_from_slice(content);
        if whole.len() as u64 > MAX_WRITTEN_BYTES {
            return Err(self.too_long());
        }
        let rights = found.map_or(FILE_MODE, |found| found.st_mode & KEPT_MODE);
        self.put(&whole, rights, mode)
            .map_err(|error| match error.kind() {
                io::ErrorKind::AlreadyExists => ToolError::Exists(self.shown.clone()),
                _ => write_error(&self.shown, error),
            })?;
        Ok(whole.len() as u64)
    }

    /// The file that is there.
    fn found(&self) -> Result<Option<Stat>, ToolError> {
        let name = self.name.as_str();
        let stat = match rustix::fs::statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(write_error(&self.shown, errno.into())),
        };
        let is = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => return Ok(Some(stat)),
            FileType::Directory => "a folder, not a file",
            FileType::Symlink => "a link, and links are not written through",
            _ => "not a file, and is not written",
        };
        let path = self.shown.clone();
        Err(ToolError::WrongKind { path, is })
    }

    fn content(&self, found: &Stat) -> Result<Vec<u8>, ToolError> {
        if u64::try_from(found.st_size).unwrap_or(u64::MAX) > MAX_WRITTEN_BYTES {
            return Err(self.too_long());
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let name = self.name.as_str();
        let opened = rustix::fs::openat(&self.folder, name, flags, Mode::empty());
        let file = File::from(opened.map_err(|e| write_error(&self.shown, e.into()))?);
        let mut content = Vec::new();
        // It may grow under our hands; then it is too long in the end.
        file.take(MAX_WRITTEN_BYTES + 1)
            .read_to_end(&mut content)
            .map_err(|error| write_error(&self.shown, error))?;
        Ok(content)
    }

    /// Writes a new file beside it, brings it to disk, and puts it in place.
    fn put(&self, whole: &[u8], rights: u32, mode: WriteMode) -> io::Result<()> {
        let mut random = [0; RANDOM_BYTES];
        getrandom::fill(&mut random).map_err(|error| io::Error::other(error.to_string()))?;
        let beside = format!(".{}.new", hex(&random));
        let at = Mode::from_raw_mode(FILE_MODE);
        let fd = rustix::fs::openat(&self.folder, beside.as_str(), NEW_FILE, at)?;
        let put = fill(File::from(fd), whole, rights).and_then(|()| {
            let flags = match mode {
                WriteMode::Create => RenameFlags::NOREPLACE,
                WriteMode::Replace | WriteMode::Append => RenameFlags::empty(),
            };
            let (from, to) = (beside.as_str(), self.name.as_str());
            rustix::fs::renameat_with(&self.folder, from, &self.folder, to, flags)?;
            Ok(())
        });
        if put.is_err() {
            // What can't be put in place must not stay in the owner's way.
            let _ = rustix::fs::unlinkat(&self.folder, beside.as_str(), AtFlags::empty());
        }
        put?;
        Ok(rustix::fs::fsync(&self.folder)?)
    }

    fn too_long(&self) -> ToolError {
        ToolError::TooLong {
            path: self.shown.clone(),
            max_bytes: MAX_WRITTEN_BYTES,
        }
    }
}

fn fill(mut file: File, whole: &[u8], rights: u32) -> io::Result<()> {
    file.write_all(whole)?;
    rustix::fs::fchmod(&file, Mode::from_raw_mode(rights))?;
    file.sync_all()
}

fn enter(folder: &OwnedFd, part: &str) -> Result<OwnedFd, Errno> {
    let open = || rustix::fs::openat(folder, part, FOLDER, Mode::empty());
    match open() {
        Err(Errno::NOENT) => {}
        other => return other,
    }
    match rustix::fs::mkdirat(folder, part, FOLDER_MODE) {
        Ok(()) | Err(Errno::EXIST) => open(),
        Err(errno) => Err(errno),
    }
}

fn write_error(path: &str, source: io::Error) -> ToolError {
    ToolError::Write {
        path: path.to_owned(),
        source,
    }
}
