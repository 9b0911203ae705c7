//! A memory folder, transcripts, and an index of them.

use bxcore::id::{CallId, MemoryFile, SessionId};
use bxcore::label::Label;
use bxcore::wire::memoryd::{MemoryAction, MemoryChange, MemoryChanged, RecallRequest, Recalled};
use bxtest::transcript::Transcript;
use jiff::Timestamp;
use memoryd::folder::{Folder, FolderError};
use memoryd::index::{Index, Sources};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Now, wherever it matters.
pub(crate) fn now() -> Timestamp {
    "2026-12-01T12:00:00Z".parse().unwrap()
}

/// A time long after every test's end.
pub(crate) fn later() -> Instant {
    Instant::now() + Duration::from_mins(10)
}

pub(crate) fn session(id: &str) -> SessionId {
    SessionId::new(id).unwrap()
}

pub(crate) fn file(name: &str) -> MemoryFile {
    MemoryFile::new(name).unwrap()
}

pub(crate) struct World {
    pub(crate) folder: TempDir,
    calls: u64,
}

impl World {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["memory", "sessions", "memoryd"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        Self { folder, calls: 0 }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn memory(&self) -> Folder {
        Folder::new(self.path("memory"))
    }

    pub(crate) fn index_file(&self) -> PathBuf {
        self.path("memoryd/index.db")
    }

    pub(crate) fn index(&self) -> Index {
        let sources = Sources {
            memory: self.memory(),
            sessions: self.path("sessions"),
        };
        Index::new(self.index_file(), sources)
    }

    pub(crate) fn transcript(&self, session: &str) -> Transcript {
        Transcript::begin(&self.path("sessions"), session)
    }

    pub(crate) fn change(
        &mut self,
        name: &str,
        label: Label,
        action: MemoryAction,
    ) -> Result<MemoryChanged, FolderError> {
        self.calls += 1;
        let asked = MemoryChange {
            session: session("chat-1"),
            call: CallId(self.calls),
            label,
            file: file(name),
            action,
        };
        memoryd::memory::change(&self.memory(), &asked, now())
    }

    pub(crate) fn add(
        &mut self,
        name: &str,
        label: Label,
        text: &str,
    ) -> Result<MemoryChanged, FolderError> {
        let text = text.to_owned();
        self.change(name, label, MemoryAction::Add { text })
    }

    /// A file's bytes.
    pub(crate) fn bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path("memory").join(name)).unwrap()
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        std::fs::write(self.path("memory").join(name), bytes).unwrap();
    }
}

pub(crate) fn query(text: &str) -> RecallRequest {
    RecallRequest {
        query: text.to_owned(),
        limit: None,
        except: None,
    }
}

pub(crate) fn recall(index: &mut Index, text: &str) -> Recalled {
    let found = index.recall(&query(text), now(), later()).unwrap();
    assert!(found.complete);
    found
}

/// The snippets that are found.
pub(crate) fn snippets(index: &mut Index, text: &str) -> Vec<String> {
    let hits = recall(index, text).hits.into_iter();
    hits.map(|hit| hit.snippet).collect()
}
