//! Removing a session: first out of sight, then out of the database, then off the disk.
//!
//! A crash in between leaves a moved folder, which the next start removes. The ledger stays: what
//! was spent is not forgotten.

use super::error::StoreError;
use super::files::folder;
use super::rows;
use super::state::View;
use super::writer::Writer;
use bxcore::id::SessionId;
use bxkit::fsx::sync_dir;
use std::io;
use std::path::PathBuf;

/// What a folder's name begins with while it is being deleted; no session id has a dot.
const DELETED_PREFIX: &str = ".deleted-";

/// The session whose folder this was.
pub(super) fn deleted_name(name: &str) -> Option<SessionId> {
    let session = name.strip_prefix(DELETED_PREFIX)?;
    SessionId::new(session).ok()
}

impl Writer {
    /// Removes a session with everything it said. A broken one too.
    pub(super) fn delete(&mut self, session: &SessionId) -> Result<(), StoreError> {
        if self.state.is_busy(session) {
            return Err(StoreError::SessionBusy(session.clone()));
        }
        let from = folder(&self.options.sessions_dir, session);
        let row = rows::head(&self.db, session).map_err(|error| self.database(&error))?;
        if row.is_none() && !from.exists() {
            return Err(StoreError::SessionUnknown(session.clone()));
        }
        self.files.forget(session);
        self.move_folder(session)
            .map_err(|error| StoreError::file(&from, &error))?;
        self.remove_rows(session)?;
        self.remove_moved_folder(session)?;
        // The log still holds what was said. A reader may be in the way; then it goes a bit later.
        if let Err(error) = self
            .db
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        {
            tracing::warn!(%error, "the write-ahead log could not be emptied");
        }
        Ok(())
    }

    fn move_folder(&self, session: &SessionId) -> io::Result<()> {
        let to = self.moved_folder(session);
        if to.exists() {
            std::fs::remove_dir_all(&to)?;
        }
        match std::fs::rename(folder(&self.options.sessions_dir, session), to) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        sync_dir(&self.options.sessions_dir)
    }

    /// Removes everything that the database has of a session but its ledger and its numbers.
    pub(super) fn remove_rows(&mut self, session: &SessionId) -> Result<(), StoreError> {
        let cached = self.state.head(session).cloned();
        self.remove_rows_of(session, cached)
            .map_err(|error| StoreError::database(&self.options.db, &error))?;
        self.state.forget_head(session);
        self.behind.remove(session);
        self.dirty.remove(session);
        Ok(())
    }

    fn remove_rows_of(
        &mut self,
        session: &SessionId,
        cached: Option<super::state::Head>,
    ) -> rusqlite::Result<()> {
        let transaction = self.db.transaction()?;
        if let Some((stored, _)) = rows::head(&transaction, session)? {
            rows::remove_pieces(&transaction, stored.row)?;
            rows::remove_session(&transaction, session, &cached.unwrap_or(stored))?;
        }
        transaction.commit()
    }

    pub(super) fn remove_moved_folder(&self, session: &SessionId) -> Result<(), StoreError> {
        let path = self.moved_folder(session);
        match std::fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(StoreError::file(&path, &error))
            }
            _ => Ok(()),
        }
    }

    fn moved_folder(&self, session: &SessionId) -> PathBuf {
        let name = format!("{DELETED_PREFIX}{session}");
        self.options.sessions_dir.join(name)
    }
}
