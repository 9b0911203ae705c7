//! Reading sessions and accounts into the writer's memory, each transcript file checked against its
//! row on the way.

use super::error::StoreError;
use super::files::{Standing, folder, foreign, foreign_folder, length, log_path};
use super::reconcile::{
    Completion, MAX_TRANSCRIPT_BYTES, Salvaged, Trust, complete, keep_beside, salvage,
};
use super::rows::{self, Piece};
use super::state::{Head, View};
use super::views::{AccountView, Counters, RawLog, Repair, Repaired};
use super::writer::Writer;
use crate::budget::{AccountKey, MAX_ACCOUNT_DEPTH, left};
use bxcore::id::SessionId;
use std::path::PathBuf;

impl Writer {
    /// Reads a session's head for a batch: a session that is not there yet gets a fresh one.
    pub(super) fn read_head(&mut self, session: &SessionId) -> Result<(), StoreError> {
        self.look_again(session)?;
        if self.known_head(session)?.is_some() {
            return Ok(());
        }
        let head = self.fresh_head(session)?;
        self.state.know_head(session.clone(), head);
        Ok(())
    }

    /// A head under a new row, with the numbers that earlier sessions of this name used.
    fn fresh_head(&mut self, session: &SessionId) -> Result<Head, StoreError> {
        let summary = rows::retired(&self.db, session).map_err(|error| self.database(&error))?;
        self.last_row += 1;
        Ok(Head {
            row: self.last_row,
            summary,
            bytes: 0,
            account: None,
        })
    }

    /// Holds a session's file against what is remembered of it. One that somebody else changed or
    /// replaced while we had it is read anew as a whole, before anything is added to it.
    pub(super) fn look_again(&mut self, session: &SessionId) -> Result<(), StoreError> {
        let remembered = self.state.head(session);
        let Some(bytes) = remembered.map(|head| head.bytes).filter(|bytes| *bytes > 0) else {
            return Ok(());
        };
        // A file that waits for its lines is put right from the journal, in its time.
        if self.behind.contains_key(session) {
            return Ok(());
        }
        let path = self.log_path(session);
        let standing = self.files.standing(session, bytes);
        match standing.map_err(|error| StoreError::file(&path, &error))? {
            Standing::Current => Ok(()),
            Standing::Replaced => {
                tracing::warn!(%session, "somebody else changed a transcript's file, or replaced it");
                self.recheck(session)
            }
        }
    }

    /// Keeps what is in an open file that somebody else put another in place of.
    fn keep_unnamed(&mut self, session: &SessionId) -> Result<(), StoreError> {
        let Some(bytes) = self.files.unnamed(session, MAX_TRANSCRIPT_BYTES) else {
            return Ok(());
        };
        let path = self.log_path(session);
        let beside = folder(&self.options.sessions_dir, session);
        if matches!(foreign_folder(&beside), Ok(None)) {
            let kept = keep_beside(&path, &bytes);
            let to = kept.map_err(|error| StoreError::file(&path, &error))?;
            let bytes = bytes.len() as u64;
            tracing::warn!(%session, to = %to.display(), bytes, "the transcript as it was is kept");
        }
        Ok(())
    }

    /// The head of a session that has a transcript.
    pub(super) fn known_head(&mut self, session: &SessionId) -> Result<Option<Head>, StoreError> {
        if let Some(head) = self.state.head(session) {
            return Ok(Some(head.clone()).filter(|head| head.summary.last_n > 0));
        }
        let row = rows::head(&self.db, session).map_err(|error| self.database(&error))?;
        let head = match row {
            Some((head, None)) => self.checked(session, head)?,
            // Somebody may have repaired it since.
            Some((head, Some(_))) => self.salvage(session, head)?,
            None if self.has_file(session)? => self.adopt(session)?,
            None => return Ok(None),
        };
        self.state.know_head(session.clone(), head.clone());
        Ok(Some(head))
    }

    /// A session whose folder is there and whose row is not.
    pub(super) fn adopt(&mut self, session: &SessionId) -> Result<Head, StoreError> {
        let head = self.fresh_head(session)?;
        self.salvage(session, head)
    }

    /// Holds a session's file against its row, and puts right what differs.
    pub(super) fn checked(&mut self, session: &SessionId, head: Head) -> Result<Head, StoreError> {
        let path = self.log_path(session);
        let strange = foreign(&path).map_err(|error| StoreError::file(&path, &error))?;
        if strange.is_none() && self.file_bytes(session)? == Some(head.bytes) {
            return Ok(head);
        }
        let pieces = rows::pieces(&self.db, head.row).map_err(|error| self.database(&error))?;
        self.put_right(session, head, &pieces, Trust::Whole)
    }

    /// Brings a session's file to what its row and the journal say; where they can't agree, the
    /// file's own sound part counts.
    pub(super) fn put_right(
        &mut self,
        session: &SessionId,
        head: Head,
        pieces: &[Piece],
        trust: Trust,
    ) -> Result<Head, StoreError> {
        self.keep_unnamed(session)?;
        self.files.forget(session);
        let path = self.log_path(session);
        let strange = foreign(&path).map_err(|error| StoreError::file(&path, &error))?;
        if let Some(why) = strange {
            return Err(self.break_session(session, &head, pieces, why.to_owned()));
        }
        if !pieces.is_empty() {
            let done = complete(&path, pieces, trust);
            match done.map_err(|error| StoreError::file(&path, &error))? {
                Completion::Done { added, set_aside } => {
                    self.note_set_aside(session, set_aside);
                    if added > 0 {
                        self.note(session, Repaired::Completed { bytes: added });
                    }
                    self.behind.remove(session);
                    let fresh = pieces.first().is_some_and(|piece| piece.first_byte == 0);
                    *self.dirty.entry(session.clone()).or_insert(false) |= fresh;
                }
                Completion::TooShort { file_bytes } => {
                    let why = format!("its file has {file_bytes} of {} bytes", head.bytes);
                    return Err(self.break_session(session, &head, pieces, why));
                }
            }
            if self.file_bytes(session)? == Some(head.bytes) {
                return Ok(head);
            }
        }
        self.salvage(session, head)
    }

    /// Takes a transcript for what its file says.
    pub(super) fn salvage(
        &mut self,
        session: &SessionId,
        before: Head,
    ) -> Result<Head, StoreError> {
        let path = self.log_path(session);
        let strange = foreign(&path).map_err(|error| StoreError::file(&path, &error))?;
        if let Some(why) = strange {
            return Err(self.break_session(session, &before, &[], why.to_owned()));
        }
        let known = before.summary.last_n;
        let salvaged = salvage(session, &path, (known > 0).then_some(known));
        match salvaged.map_err(|error| StoreError::file(&path, &error))? {
            Salvaged::Broken(why) => Err(self.break_session(session, &before, &[], why)),
            Salvaged::Sound {
                summary,
                bytes,
                set_aside,
            } => {
                self.note_set_aside(session, set_aside);
                match (summary.last_n, known) {
                    (now, known) if now < known => self.note(session, Repaired::LastEntryLost),
                    (now, known) if now > known => {
                        let entries = now - known;
                        self.note(session, Repaired::Adopted { entries });
                    }
                    _ => {}
                }
                let summary = summary.at_least(&before.summary);
                let same_turn = summary.open_turn == before.summary.open_turn;
                let head = Head {
                    row: before.row,
                    account: before.account.filter(|_| same_turn),
                    summary,
                    bytes,
                };
                rows::put_head(&self.db, session, &head).map_err(|error| self.database(&error))?;
                Ok(head)
            }
        }
    }

    /// Sets a session aside that can't be read. What only the journal has of it is kept beside its
    /// file, so that the journal can be pruned.
    pub(super) fn break_session(
        &mut self,
        session: &SessionId,
        head: &Head,
        pieces: &[Piece],
        why: String,
    ) -> StoreError {
        let path = self.log_path(session);
        let kept = match pieces {
            [] => Ok(()),
            pieces => {
                let text: String = pieces.iter().map(|piece| piece.text.as_str()).collect();
                keep_beside(&path, text.as_bytes()).map(|_| ())
            }
        };
        if let Err(error) = kept {
            return StoreError::file(&self.log_path(session), &error);
        }
        let noted = rows::put_broken(&self.db, session, head, &why)
            .and_then(|()| rows::remove_pieces(&self.db, head.row));
        if let Err(error) = noted {
            return self.database(&error);
        }
        self.files.forget(session);
        self.state.forget_head(session);
        self.behind.remove(session);
        self.note(session, Repaired::Broken { why: why.clone() });
        StoreError::TranscriptBroken {
            session: session.clone(),
            why,
        }
    }

    /// Where a transcript is, with what its file lacks.
    pub(super) fn log(&mut self, session: &SessionId) -> Result<RawLog, StoreError> {
        self.look_again(session)?;
        let head = self.known_head(session)?;
        let head = head.ok_or_else(|| StoreError::SessionUnknown(session.clone()))?;
        let mut log = RawLog {
            path: self.log_path(session),
            file_bytes: head.bytes,
            tail: Vec::new(),
        };
        if self.behind.contains_key(session) && self.catch_up(session).is_err() {
            let pieces = rows::pieces(&self.db, head.row).map_err(|error| self.database(&error))?;
            log.file_bytes = pieces.first().map_or(head.bytes, |piece| piece.first_byte);
            let text: String = pieces.into_iter().map(|piece| piece.text).collect();
            log.tail = text.into_bytes();
        }
        Ok(log)
    }

    /// The highest numbers that a session used; for one that isn't there, those that earlier ones
    /// of its name used.
    pub(super) fn counters(&mut self, session: &SessionId) -> Result<Counters, StoreError> {
        let summary = match self.known_head(session)? {
            Some(head) => head.summary,
            None => rows::retired(&self.db, session).map_err(|error| self.database(&error))?,
        };
        Ok(Counters {
            turn: summary.turn,
            epoch: summary.epoch,
            call: summary.call,
            model_call: summary.model_call,
        })
    }

    /// Reads an account and those above it, as far as they are there.
    pub(super) fn read_chain(&mut self, key: &AccountKey) -> Result<(), StoreError> {
        let mut next = Some(key.clone());
        for _ in 0..MAX_ACCOUNT_DEPTH {
            let Some(key) = next.take() else { break };
            if let Some(stored) = self.state.account(&key) {
                next.clone_from(&stored.parent);
                continue;
            }
            let stored = rows::account(&self.db, &key).map_err(|error| self.database(&error))?;
            let Some(stored) = stored else { break };
            next.clone_from(&stored.parent);
            self.state.know_account(key, stored);
        }
        Ok(())
    }

    pub(super) fn account_view(
        &mut self,
        key: &AccountKey,
    ) -> Result<Option<AccountView>, StoreError> {
        self.read_chain(key)?;
        let stored = self.state.account(key);
        Ok(stored
            .zip(self.state.chain(key))
            .map(|(stored, chain)| AccountView {
                key: key.clone(),
                parent: stored.parent.clone(),
                account: stored.account,
                left: left(&chain),
            }))
    }

    fn note_set_aside(&mut self, session: &SessionId, set_aside: Option<(PathBuf, u64)>) {
        if let Some((to, bytes)) = set_aside {
            self.note(session, Repaired::SetAside { to, bytes });
        }
    }

    fn note(&mut self, session: &SessionId, what: Repaired) {
        tracing::warn!(%session, %what, "a transcript was not as it should be");
        self.repairs.push(Repair {
            session: session.clone(),
            what,
        });
    }

    pub(super) fn log_path(&self, session: &SessionId) -> PathBuf {
        log_path(&self.options.sessions_dir, session)
    }

    fn has_file(&self, session: &SessionId) -> Result<bool, StoreError> {
        Ok(self.file_bytes(session)?.is_some())
    }

    fn file_bytes(&self, session: &SessionId) -> Result<Option<u64>, StoreError> {
        let path = self.log_path(session);
        length(&path).map_err(|error| StoreError::file(&path, &error))
    }

    pub(super) fn database(&self, error: &rusqlite::Error) -> StoreError {
        StoreError::database(&self.options.db, error)
    }
}
