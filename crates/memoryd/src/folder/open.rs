//! One memory file: read with care, written whole or not at all.

use super::error::{FolderError, unfit};
use crate::file::{EditError, File, MAX_FILE_BYTES};
use bxcore::id::MemoryFile;
use bxkit::fsx;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::fs::Metadata;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// How often a change is made again because somebody else saved the file meanwhile.
pub const MAX_WRITE_TRIES: u32 = 5;
/// The mode of memory files.
const MODE: u32 = 0o600;

/// The memory folder.
#[derive(Debug, Clone)]
pub struct Folder {
    pub(super) path: PathBuf,
}

/// A file as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// What is in it.
    pub file: File,
    /// Its bytes; none where there is no file.
    bytes: Option<Vec<u8>>,
}

/// What tells one state of a file from another without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Stamp {
    /// Device and inode.
    pub file: (u64, u64),
    /// Length in bytes.
    pub bytes: u64,
    /// Last change of content and of the inode, in nanoseconds since 1970.
    pub changed: (i64, i64),
}

impl Stamp {
    /// Of what the system says of a file.
    pub fn of(found: &Metadata) -> Self {
        const NANOS: i64 = 1_000_000_000;
        let nanos = |secs: i64, nanos: i64| secs.saturating_mul(NANOS).saturating_add(nanos);
        Self {
            file: (found.dev(), found.ino()),
            bytes: found.len(),
            changed: (
                nanos(found.mtime(), found.mtime_nsec()),
                nanos(found.ctime(), found.ctime_nsec()),
            ),
        }
    }
}

impl Folder {
    /// The folder at a path; it must be there.
    pub fn new(path: PathBuf) -> Self {
        Self { path }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn path_of(&self, name: &MemoryFile) -> PathBuf {
        self.path.join(name.file_name())
    }

    /// Reads a file; one that is not there is empty.
    ///
    /// # Errors
    /// What is there is a link, a pipe or the like, is too long or no text, or can't be read.
    pub fn read(&self, name: &MemoryFile) -> Result<Loaded, FolderError> {
        let path = self.path_of(name);
        let Some((bytes, changed)) = bytes_of(&path)? else {
            return Ok(Loaded {
                file: File::default(),
                bytes: None,
            });
        };
        let why = unfit(&bytes);
        match (why, std::str::from_utf8(&bytes)) {
            (None, Ok(text)) => Ok(Loaded {
                file: File::parse(text, changed),
                bytes: Some(bytes),
            }),
            (why, _) => Err(FolderError::Unusable {
                path,
                why: why.unwrap_or("it is not text in UTF-8"),
            }),
        }
    }

    /// Reads a file, changes it, and writes it; again from the start if somebody else saved it
    /// meanwhile.
    ///
    /// # Errors
    /// It can't be read, changed or written; it is then as it was.
    pub fn change<T>(
        &self,
        name: &MemoryFile,
        mut edit: impl FnMut(&mut File) -> Result<T, EditError>,
    ) -> Result<T, FolderError> {
        for _ in 0..MAX_WRITE_TRIES {
            let mut loaded = self.read(name)?;
            if loaded.bytes.is_none() {
                self.room_for(name)?;
            }
            let done = edit(&mut loaded.file).map_err(|source| FolderError::Edit {
                file: name.clone(),
                source,
            })?;
            if self.write(name, &loaded)? {
                return Ok(done);
            }
        }
        Err(FolderError::Changed(self.path_of(name)))
    }

    /// Writes a file that was read; says whether it did: not where somebody else changed it.
    ///
    /// # Errors
    /// The system refuses.
    pub fn write(&self, name: &MemoryFile, loaded: &Loaded) -> Result<bool, FolderError> {
        let path = self.path_of(name);
        let text = loaded.file.render();
        if loaded.bytes.as_deref().unwrap_or_default() == text.as_bytes() {
            return Ok(true);
        }
        let unchanged = || match (bytes_of(&path), &loaded.bytes) {
            (Ok(Some((now, _))), Some(before)) if now == *before => Ok(()),
            (Ok(None), None) => Ok(()),
            _ => Err(io::Error::from(io::ErrorKind::ResourceBusy)),
        };
        match fsx::write_atomic_if(&path, text.as_bytes(), MODE, unchanged) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Ok(false),
            Err(source) => Err(FolderError::System {
                path,
                what: "written",
                source,
            }),
        }
    }
}

/// A file's bytes, one more than it may have at most, and when it was written; none without it.
fn bytes_of(path: &Path) -> Result<Option<(Vec<u8>, Timestamp)>, FolderError> {
    let unusable = |why| FolderError::Unusable {
        path: path.to_owned(),
        why,
    };
    let failed = |source| FolderError::System {
        path: path.to_owned(),
        what: "read",
        source,
    };
    // A link is refused by the system, in words that help nobody.
    if path.is_symlink() {
        return Err(unusable("it is a link"));
    }
    let file = match fsx::careful().read(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let found = file.metadata().map_err(failed)?;
    if !found.is_file() {
        return Err(unusable("it is no regular file"));
    }
    let most = u64::try_from(MAX_FILE_BYTES).unwrap_or(u64::MAX);
    if found.len() > most {
        return Err(unusable("it is longer than 256 KiB"));
    }
    let mut bytes = Vec::new();
    file.take(most + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    let changed = found
        .modified()
        .ok()
        .and_then(|time| Timestamp::try_from(time).ok());
    // Seconds are enough for people, and a file's time is written into it.
    let changed = changed.and_then(|time| Timestamp::from_second(time.as_second()).ok());
    Ok(Some((bytes, changed.unwrap_or(Timestamp::UNIX_EPOCH))))
}
