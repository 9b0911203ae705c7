//! Takes passages into the database: what is known of each source, and what is new in it.

use super::database::Database;
use super::error::IndexError;
use super::follow::{Place, follow};
use super::refresh::Sources;
use super::transcript::Passage;
use crate::folder::{Folder, Stamp};
use bxcore::id::{MemoryFile, SessionId};
use jiff::Timestamp;
use std::collections::{HashMap, HashSet};
use std::path::Path;

/// How long ago a memory file must have been written for its stamp to be trusted, in seconds: the
/// file system's clock may tick slower than two writes follow each other.
const SETTLED_AFTER_SECS: i64 = 2;

/// The database with what it knows of its sources.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) database: Database,
    known: HashMap<Source, Known>,
}

/// Something that passages come from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Source {
    Memory(MemoryFile),
    Session(SessionId),
}

#[derive(Debug, Clone, Copy)]
struct Known {
    id: i64,
    stamp: Stamp,
    place: Place,
}

impl Open {
    /// Opens the index at a path, with what it knows.
    pub(super) fn at(path: &Path) -> Result<Self, IndexError> {
        let database = Database::open(path)?;
        let mut known = HashMap::new();
        {
            let sql = "SELECT id, kind, name, stamp, taken, said FROM sources";
            let mut select = database.db.prepare(sql)?;
            let mut rows = select.query([])?;
            while let Some(row) = rows.next()? {
                let (kind, name): (String, String) = (row.get(1)?, row.get(2)?);
                let (stamp, said): (String, String) = (row.get(3)?, row.get(5)?);
                let source = Source::stored(&kind, &name);
                let stamp = serde_json::from_str(&stamp).ok();
                let said = serde_json::from_str(&said).ok();
                let taken: i64 = row.get(4)?;
                let (Some(source), Some(stamp), Some(said)) = (source, stamp, said) else {
                    // Nothing that we wrote; the caller makes the index anew.
                    return Err(rusqlite::Error::InvalidQuery.into());
                };
                let taken = u64::try_from(taken).unwrap_or_default();
                let place = Place { taken, said };
                let id = row.get(0)?;
                known.insert(source, Known { id, stamp, place });
            }
        }
        Ok(Self { database, known })
    }

    /// Whether a source was taken in as it is.
    pub(super) fn has(&self, source: &Source, stamp: Stamp) -> bool {
        self.known
            .get(source)
            .is_some_and(|known| known.stamp == stamp)
    }

    /// Takes out what came from sources that are gone.
    pub(super) fn forget_all_but(&mut self, found: &[(Source, Stamp)]) -> Result<(), IndexError> {
        let there: HashSet<&Source> = found.iter().map(|(source, _)| source).collect();
        let gone: Vec<Source> = self
            .known
            .keys()
            .filter(|source| !there.contains(source))
            .cloned()
            .collect();
        if gone.is_empty() {
            return Ok(());
        }
        self.database.db.execute_batch("BEGIN IMMEDIATE")?;
        for source in &gone {
            if let Some(known) = self.known.remove(source) {
                self.empty(known.id)?;
                let sql = "DELETE FROM sources WHERE id = ?1";
                self.database.db.prepare_cached(sql)?.execute([known.id])?;
            }
        }
        self.database.db.execute_batch("COMMIT")?;
        Ok(())
    }

    /// Takes out all passages of a source.
    fn empty(&self, id: i64) -> Result<(), IndexError> {
        for sql in [
            "INSERT INTO words (words, rowid, text)
             SELECT 'delete', id, text FROM passages WHERE source = ?1",
            "DELETE FROM passages WHERE source = ?1",
        ] {
            self.database.db.prepare_cached(sql)?.execute([id])?;
        }
        Ok(())
    }

    /// Takes in what is new in one source; belongs into a transaction.
    pub(super) fn take(
        &mut self,
        sources: &Sources,
        source: &Source,
        stamp: Stamp,
        now: Timestamp,
    ) -> Result<(), IndexError> {
        let known = match self.known.get(source) {
            Some(known) => *known,
            None => self.begin(source)?,
        };
        let (stamp, place) = match source {
            Source::Memory(file) => {
                self.empty(known.id)?;
                self.take_file(known.id, &sources.memory, file)?;
                (settled(stamp, now), known.place)
            }
            Source::Session(session) => {
                let replaced = known.stamp.file != stamp.file || stamp.bytes < known.place.taken;
                let from = if replaced {
                    Place::default()
                } else {
                    known.place
                };
                if replaced {
                    self.empty(known.id)?;
                }
                (
                    stamp,
                    self.take_transcript(known.id, &sources.transcript(session), from)?,
                )
            }
        };
        let known = Known {
            stamp,
            place,
            ..known
        };
        self.keep(&known)?;
        self.known.insert(source.clone(), known);
        Ok(())
    }

    fn begin(&self, source: &Source) -> Result<Known, IndexError> {
        let known = Known {
            id: 0,
            stamp: Stamp::default(),
            place: Place::default(),
        };
        let (kind, name) = source.words();
        let sql = "INSERT INTO sources (kind, name, stamp, taken, said) VALUES (?1, ?2, '', 0, '')";
        self.database
            .db
            .prepare_cached(sql)?
            .execute([kind, name])?;
        let id = self.database.db.last_insert_rowid();
        Ok(Known { id, ..known })
    }

    fn keep(&self, known: &Known) -> Result<(), IndexError> {
        // Structures of numbers and words can always be written; an empty text is read as damage.
        let stamp = serde_json::to_string(&known.stamp).unwrap_or_default();
        let said = serde_json::to_string(&known.place.said).unwrap_or_default();
        let taken = i64::try_from(known.place.taken).unwrap_or(i64::MAX);
        let sql = "UPDATE sources SET stamp = ?2, taken = ?3, said = ?4 WHERE id = ?1";
        let mut update = self.database.db.prepare_cached(sql)?;
        update.execute(rusqlite::params![known.id, stamp, taken, said])?;
        Ok(())
    }

    fn take_file(&self, id: i64, memory: &Folder, file: &MemoryFile) -> Result<(), IndexError> {
        let loaded = match memory.read(file) {
            Ok(loaded) => loaded,
            Err(error) => {
                tracing::warn!(why = %bxkit::report::chain(&error), "left out of memory");
                return Ok(());
            }
        };
        for entry in loaded.file.entries() {
            self.insert(
                id,
                &Passage {
                    place: entry.id.map(String::from).unwrap_or_default(),
                    who: entry.writer.map(String::from).unwrap_or_default(),
                    time: entry.time,
                    label: entry.label,
                    text: entry.text,
                },
            )?;
        }
        Ok(())
    }

    fn take_transcript(&self, id: i64, path: &Path, from: Place) -> Result<Place, IndexError> {
        let mut reached = from;
        let done = follow(path, from, |passages, place| {
            for passage in &passages {
                self.insert(id, passage)?;
            }
            reached = place;
            Ok(())
        });
        match done {
            // It is looked at again when it changes.
            Err(IndexError::Read(error)) => {
                tracing::warn!(path = %path.display(), %error, "a transcript can't be searched");
                Ok(reached)
            }
            done => done.map(|()| reached),
        }
    }

    fn insert(&self, source: i64, passage: &Passage) -> Result<(), IndexError> {
        let db = &self.database.db;
        let sql = "INSERT INTO passages (source, place, who, time, class, untrusted, text)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        db.prepare_cached(sql)?.execute(rusqlite::params![
            source,
            passage.place,
            passage.who,
            passage.time,
            passage.label.class.name(),
            passage.label.untrusted,
            passage.text,
        ])?;
        let sql = "INSERT INTO words (rowid, text) VALUES (?1, ?2)";
        let mut insert = db.prepare_cached(sql)?;
        insert.execute(rusqlite::params![db.last_insert_rowid(), passage.text])?;
        Ok(())
    }
}

impl Source {
    const MEMORY: &'static str = "memory";
    const SESSION: &'static str = "session";

    fn words(&self) -> (&str, &str) {
        match self {
            Self::Memory(file) => (Self::MEMORY, file.as_str()),
            Self::Session(session) => (Self::SESSION, session.as_str()),
        }
    }

    pub(super) fn stored(kind: &str, name: &str) -> Option<Self> {
        match kind {
            Self::MEMORY => MemoryFile::new(name).ok().map(Self::Memory),
            Self::SESSION => SessionId::new(name).ok().map(Self::Session),
            _ => None,
        }
    }
}

/// A stamp to compare with at the next look; none that would fit where the file is too new.
fn settled(stamp: Stamp, now: Timestamp) -> Stamp {
    const NANOS: i64 = 1_000_000_000;
    let age_secs = now.as_second().saturating_sub(stamp.changed.1 / NANOS);
    if age_secs >= SETTLED_AFTER_SECS {
        stamp
    } else {
        Stamp::default()
    }
}
