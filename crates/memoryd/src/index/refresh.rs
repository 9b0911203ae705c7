//! Keeps the index as new as what it is made from.

use super::error::IndexError;
use super::intake::{Open, Source};
use crate::folder::{Folder, Stamp};
use bxcore::id::SessionId;
use bxcore::transcript::TRANSCRIPT_FILE;
use bxcore::wire::memoryd::{RecallRequest, Recalled};
use jiff::Timestamp;
use std::path::PathBuf;
use std::time::Instant;

/// How many sources are taken in between two looks at the time.
const SOURCES_A_BATCH: usize = 64;

/// What the index is made from.
#[derive(Debug, Clone)]
pub struct Sources {
    /// The memory files.
    pub memory: Folder,
    /// The transcripts, one folder a session.
    pub sessions: PathBuf,
}

/// Whether everything is in the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// It is.
    Complete,
    /// The time was over before.
    Partial,
}

/// The index.
#[derive(Debug)]
pub struct Index {
    path: PathBuf,
    sources: Sources,
    open: Option<Open>,
}

impl Index {
    /// The index at a path, which is opened when it is first needed.
    pub fn new(path: PathBuf, sources: Sources) -> Self {
        Self {
            path,
            sources,
            open: None,
        }
    }

    /// Takes in what is new, up to a time.
    ///
    /// An index that is damaged, or was deleted under us, is made anew.
    ///
    /// # Errors
    /// It can't be made, or the folders can't be read.
    pub fn refresh(&mut self, now: Timestamp, until: Instant) -> Result<Progress, IndexError> {
        self.mending(|index| index.take_in(now, until))
    }

    /// Takes in what is new, and searches.
    ///
    /// # Errors
    /// As for [`Index::refresh`].
    pub fn recall(
        &mut self,
        request: &RecallRequest,
        now: Timestamp,
        until: Instant,
    ) -> Result<Recalled, IndexError> {
        self.mending(|index| {
            let progress = index.take_in(now, until)?;
            let hits = index.opened()?.search(request, now)?;
            Ok(Recalled {
                hits,
                complete: progress == Progress::Complete,
            })
        })
    }

    /// Does something with the index; once more with a new one, if it turns out to be damaged.
    fn mending<T>(
        &mut self,
        mut work: impl FnMut(&mut Self) -> Result<T, IndexError>,
    ) -> Result<T, IndexError> {
        let error = match work(self) {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        // Whatever it was, what we hold in memory may say more than what was committed.
        self.open = None;
        if !error.is_damage() {
            return Err(error);
        }
        tracing::warn!(why = %bxkit::report::chain(&error), "the index is made anew");
        // A name that leads nowhere is no trouble here.
        let _ = std::fs::remove_file(&self.path);
        let again = work(self);
        if again.is_err() {
            self.open = None;
        }
        again
    }

    fn opened(&mut self) -> Result<&mut Open, IndexError> {
        if !self
            .open
            .as_ref()
            .is_some_and(|open| open.database.is_current())
        {
            // The old one first: what it leaves behind must not meet the new one.
            self.open = None;
            self.open = Some(Open::at(&self.path)?);
        }
        match &mut self.open {
            Some(open) => Ok(open),
            None => unreachable!("it was opened just now"),
        }
    }

    fn take_in(&mut self, now: Timestamp, until: Instant) -> Result<Progress, IndexError> {
        let sources = self.sources.clone();
        let open = self.opened()?;
        let found = sources.look()?;
        open.forget_all_but(&found)?;
        let is_new = |(source, stamp): &&(Source, Stamp)| !open.has(source, *stamp);
        let new: Vec<(Source, Stamp)> = found.iter().filter(is_new).cloned().collect();
        for batch in new.chunks(SOURCES_A_BATCH) {
            if Instant::now() >= until {
                return Ok(Progress::Partial);
            }
            open.database.db.execute_batch("BEGIN IMMEDIATE")?;
            for (source, stamp) in batch {
                open.take(&sources, source, *stamp, now)?;
            }
            open.database.db.execute_batch("COMMIT")?;
        }
        Ok(Progress::Complete)
    }
}

impl Sources {
    /// Everything that passages may come from, as it is now.
    fn look(&self) -> Result<Vec<(Source, Stamp)>, IndexError> {
        let mut found = Vec::new();
        match self.memory.look() {
            Ok(memory) => {
                let files = memory.files.into_iter();
                found.extend(files.map(|(file, stamp)| (Source::Memory(file), stamp)));
            }
            Err(error) => tracing::warn!(why = %bxkit::report::chain(&error), "no memory files"),
        }
        for entry in std::fs::read_dir(&self.sessions)? {
            let entry = entry?;
            let name = entry.file_name();
            let Some(session) = name.to_str().and_then(|name| SessionId::new(name).ok()) else {
                continue;
            };
            // A link leads to what is none of ours.
            if !entry.file_type()?.is_dir() {
                continue;
            }
            // One that is gone, or is no file, has nothing to be found.
            let transcript = std::fs::symlink_metadata(self.transcript(&session));
            if let Some(found_file) = transcript.ok().filter(std::fs::Metadata::is_file) {
                found.push((Source::Session(session), Stamp::of(&found_file)));
            }
        }
        Ok(found)
    }

    pub(super) fn transcript(&self, session: &SessionId) -> PathBuf {
        self.sessions.join(session.as_str()).join(TRANSCRIPT_FILE)
    }
}
