//! The transcript files: where they are, and appending to them.
//!
//! Appends are not synced here. Whatever goes wrong with one is put right later, from the journal.

use bxcore::id::SessionId;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A transcript's name in its session's folder.
pub(super) const LOG_NAME: &str = "log.jsonl";
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

/// The length of a file; `None` if it is not there.
pub(super) fn length(path: &Path) -> io::Result<Option<u64>> {
    match std::fs::metadata(path) {
        Ok(metadata) => Ok(Some(metadata.len())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
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
        let written = opened.file.write_all(text);
        if written.is_err() {
            // Part of it may be there. The next open finds the wrong length and says so.
            self.open.remove(session);
        }
        written
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
        let file = OpenOptions::new()
            .append(true)
            .create(fresh)
            .mode(0o600)
            .open(log_path(&self.sessions, session))?;
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
