//! Questions that the database answers while the writer goes on.

use super::error::StoreError;
use super::schema;
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// A connection that only reads. It sees everything that was committed before it is asked.
#[derive(Debug)]
pub(super) struct Reader {
    path: PathBuf,
    db: Mutex<Connection>,
}

impl Reader {
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        let db = schema::open_reader(path).map_err(|error| StoreError::database(path, &error))?;
        Ok(Self {
            path: path.to_owned(),
            db: Mutex::new(db),
        })
    }

    /// Asks. Blocks.
    pub(super) fn ask<T>(
        &self,
        question: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        // A panic in a question leaves the connection as usable as it was.
        let db = self.db.lock().unwrap_or_else(PoisonError::into_inner);
        question(&db).map_err(|error| StoreError::database(&self.path, &error))
    }
}
