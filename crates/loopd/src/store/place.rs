//! Makes the store's files before the process gives up the right to make any.

use super::error::StoreError;
use super::files::make_folder;
use super::options::StoreOptions;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

/// The files of a database besides itself: SQLite's write-ahead log and its index, and our lock.
const BESIDE_DB: [&str; 3] = ["-wal", "-shm", ".lock"];

impl StoreOptions {
    /// Makes whatever is missing, empty, and names everything that the store writes to.
    ///
    /// A process that is confined to these can open the store: it never makes a file outside of
    /// the folders that are named here.
    pub fn make_files(&self) -> Result<Vec<PathBuf>, StoreError> {
        for folder in [&self.sessions_dir, &self.backups_dir] {
            make_folder(folder).map_err(|error| StoreError::file(folder, &error))?;
        }
        let mut places = vec![self.sessions_dir.clone(), self.backups_dir.clone()];
        for suffix in std::iter::once("").chain(BESIDE_DB) {
            let mut name = OsString::from(&self.db);
            name.push(suffix);
            let path = PathBuf::from(name);
            OpenOptions::new()
                .create(true)
                .append(true)
                .mode(0o600)
                .open(&path)
                .map_err(|error| StoreError::file(&path, &error))?;
            places.push(path);
        }
        Ok(places)
    }
}
