//! The transcript files: where they are, and appending to them.
//!
//! Appends are not synced here. Whatever goes wrong with one is put right later, from the journal.

use bxcore::id::SessionId;
use bxkit::fsx::careful;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{DirBuilder, File, Metadata};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// A transcript's name in its session's folder.
pub(super) const LOG_NAME: &str = bxcore::transcript::TRANSCRIPT_FILE;
/// How many transcript files are kept open.
const MAX_OPEN_FILES: usize = 256;

/// What a file's name begins with that was taken out of a transcript; a number follows.
pub(super) const SET_ASIDE_PREFIX: &str = "log.jsonl.torn-";

/// Whether a file of this name was taken out of a transcript.
pub(super) fn is_set_aside(name: &OsStr) -> bool {
    name.as_encoded_bytes()
        .starts_with(SET_ASIDE_PREFIX.as_bytes())
}

/// A session's folder.
pub(super) fn folder(sessions: &Path, session: &SessionId) -> PathBuf {
    sessions.join(session.as_str())
}

/// A session's transcript.
pub(super) fn log_path(sessions: &Path, session: &SessionId) -> PathBuf {
    folder(sessions, session).join(LOG_NAME)
}

/// Makes a folder that only its owner may enter, unless it is there.
pub(super) fn make_folder(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// What stands at a transcript's place, links not followed; `None` if nothing does.
fn looked_at(path: &Path) -> io::Result<Option<Metadata>> {
    match std::fs::symlink_metadata(path) {
        Ok(metadata) => Ok(Some(metadata)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The length of a file; `None` if it is not there.
pub(super) fn length(path: &Path) -> io::Result<Option<u64>> {
    Ok(looked_at(path)?.map(|metadata| metadata.len()))
}

/// Why what stands at a transcript's place is none of ours, if it isn't.
///
/// Asked before a file is opened: opening a link leads elsewhere, and opening a pipe waits.
pub(super) fn foreign(path: &Path) -> io::Result<Option<&'static str>> {
    if let Some(why) = path.parent().map_or(Ok(None), foreign_folder)? {
        return Ok(Some(why));
    }
    let link = "its file is a symbolic link";
    let other = "its file is no regular file";
    unlike(path, Metadata::is_file, link, other)
}

/// Why what stands at the place of a session's folder is none, if it isn't one.
pub(super) fn foreign_folder(path: &Path) -> io::Result<Option<&'static str>> {
    let link = "its folder is a symbolic link";
    unlike(path, Metadata::is_dir, link, "its folder is no folder")
}

/// What to say of something that is there and is not of the right kind.
fn unlike(
    path: &Path,
    is_right: fn(&Metadata) -> bool,
    link: &'static str,
    other: &'static str,
) -> io::Result<Option<&'static str>> {
    let strange = looked_at(path)?.filter(|found| !is_right(found));
    Ok(strange.map(|found| if found.is_symlink() { link } else { other }))
}

/// What became of a transcript's file that was open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// Its name leads to it, and it is as long as it should be.
    Current,
    /// Somebody else changed its length, or put another file in its place.
    Replaced,
}

/// Files that are open for appending, the ones that were used last.
#[derive(Debug)]
pub(super) struct Files {
    sessions: PathBuf,
    open: HashMap<SessionId, Opened>,
    uses: u64,
}

#[derive(Debug)]
struct Opened {
    file: File,
    last_use: u64,
}

impl Opened {
    /// Whether the name leads to this very file, and it has exactly `bytes` bytes.
    fn is_at(&self, path: &Path, bytes: u64) -> io::Result<bool> {
        let ours = self.file.metadata()?;
        let named = looked_at(path)?;
        Ok(named.is_some_and(|named| {
            (named.dev(), named.ino()) == (ours.dev(), ours.ino()) && named.len() == bytes
        }))
    }
}

impl Files {
    pub(super) fn new(sessions: PathBuf) -> Self {
        Self {
            sessions,
            open: HashMap::new(),
            uses: 0,
        }
    }

    /// Appends to a session's file, which must have exactly `first_byte` bytes before.
    pub(super) fn append(
        &mut self,
        session: &SessionId,
        first_byte: u64,
        text: &[u8],
    ) -> io::Result<()> {
        self.uses += 1;
        let uses = self.uses;
        if !self.open.contains_key(session) {
            let file = self.open_at(session, first_byte)?;
            self.make_room();
            let opened = Opened { file, last_use: 0 };
            self.open.insert(session.clone(), opened);
        }
        let Some(opened) = self.open.get_mut(session) else {
            return Err(io::ErrorKind::NotFound.into());
        };
        opened.last_use = uses;
        // Unseen, it would go into a file that no name leads to any more.
        if !opened.is_at(&log_path(&self.sessions, session), first_byte)? {
            let message = "somebody else changed it or put another in its place";
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        let written = opened.file.write_all(text);
        if written.is_err() {
            // Part of it may be there. The next open finds the wrong length and says so.
            self.open.remove(session);
        }
        written
    }

    /// Whether a session's file is what it was, with exactly `bytes` bytes.
    pub(super) fn standing(&self, session: &SessionId, bytes: u64) -> io::Result<Standing> {
        let path = log_path(&self.sessions, session);
        let is_current = match self.open.get(session) {
            Some(opened) => opened.is_at(&path, bytes)?,
            None => looked_at(&path)?.is_some_and(|found| found.is_file() && found.len() == bytes),
        };
        Ok(if is_current {
            Standing::Current
        } else {
            Standing::Replaced
        })
    }

    /// What an open file holds that no name leads to any more; none where one does, or where there
    /// is none open.
    pub(super) fn unnamed(&mut self, session: &SessionId, most: u64) -> Option<Vec<u8>> {
        let opened = self.open.get_mut(session)?;
        if opened.file.metadata().ok()?.nlink() > 0 {
            return None;
        }
        let mut bytes = Vec::new();
        opened.file.rewind().ok()?;
        let read = Read::by_ref(&mut opened.file)
            .take(most)
            .read_to_end(&mut bytes);
        read.ok().map(|_| bytes)
    }

    /// Closes a session's file.
    pub(super) fn forget(&mut self, session: &SessionId) {
        self.open.remove(session);
    }

    fn open_at(&self, session: &SessionId, first_byte: u64) -> io::Result<File> {
        let fresh = first_byte == 0;
        if fresh {
            make_folder(&folder(&self.sessions, session))?;
        }
        let path = log_path(&self.sessions, session);
        if let Some(why) = foreign(&path)? {
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        let file = careful()
            .read(true)
            .append(true)
            .create(fresh)
            .mode(0o600)
            .open(path)?;
        let length = file.metadata()?.len();
        if length != first_byte {
            let message = format!("it has {length} bytes instead of {first_byte}");
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        Ok(file)
    }

    fn make_room(&mut self) {
        if self.open.len() < MAX_OPEN_FILES {
            return;
        }
        let oldest = self.open.iter().min_by_key(|(_, opened)| opened.last_use);
        if let Some(session) = oldest.map(|(session, _)| session.clone()) {
            self.open.remove(&session);
        }
    }
}
