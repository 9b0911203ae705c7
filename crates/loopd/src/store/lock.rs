//! Keeps a second store away from a database.

use super::error::StoreError;
use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The lock on a database; the system releases it with the process, however that ends.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock of a database, in a file beside it.
    pub(super) fn take(db: &Path) -> Result<Self, StoreError> {
        let mut name = OsString::from(db);
        name.push(".lock");
        let path = PathBuf::from(name);
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&path)
            .map_err(|error| StoreError::file(&path, &error))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => Err(StoreError::Held { path }),
            Err(TryLockError::Error(error)) => Err(StoreError::file(&path, &error)),
        }
    }
}
