//! The wire dump: each request body as it was sent, a line each, in a file for the owner alone.

use bytes::Bytes;
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The file's name in the role's state folder.
pub const DUMP_FILE: &str = "wire.jsonl";

/// Appends request bodies to a file. Clones share it.
#[derive(Debug, Clone)]
pub struct Dump {
    file: Arc<Mutex<File>>,
    path: PathBuf,
}

impl Dump {
    /// Opens the dump in a folder, mode 0600; what it holds already is kept.
    ///
    /// # Errors
    /// It can't be opened, or is a link.
    pub fn open(folder: &Path) -> io::Result<Self> {
        let path = folder.join(DUMP_FILE);
        let flags =
            OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::open(&path, flags, Mode::from_raw_mode(0o600))?;
        rustix::fs::fchmod(&file, Mode::from_raw_mode(0o600))?;
        Ok(Self {
            file: Arc::new(Mutex::new(File::from(file))),
            path,
        })
    }

    /// Appends a body. A failure is logged and does not keep the call from being made.
    pub async fn append(&self, body: Bytes) {
        let file = Arc::clone(&self.file);
        let written = tokio::task::spawn_blocking(move || {
            // One write, so that the line is whole or absent.
            let line = [&body[..], b"\n"].concat();
            file.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .write_all(&line)
        });
        let failure = match written.await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        tracing::error!(path = %self.path.display(), %failure, "a request could not be added to the wire dump");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[tokio::test]
    async fn bodies_are_appended_byte_for_byte() {
        let folder = tempfile::tempdir().unwrap();
        for body in ["{\"a\": 1}", "{}"] {
            Dump::open(folder.path())
                .unwrap()
                .append(Bytes::from(body))
                .await;
        }
        let path = folder.path().join(DUMP_FILE);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "{\"a\": 1}\n{}\n");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_link_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("elsewhere", folder.path().join(DUMP_FILE)).unwrap();
        assert!(Dump::open(folder.path()).is_err());
    }
}
