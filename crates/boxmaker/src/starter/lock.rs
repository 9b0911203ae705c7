//! One process installs at a time: an advisory lock that ends with its holder.

use super::error::StarterError;
use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;
use std::time::{Duration, Instant};

/// How often a held lock is tried again, in milliseconds.
const RETRY_MS: u64 = 200;

/// The lock; given back when dropped, and by the kernel when its holder is killed.
#[derive(Debug)]
pub(crate) struct InstallLock {
    _file: File,
}

impl InstallLock {
    /// Takes the lock, for which it waits up to `within`; `waiting` is called at each try that failed.
    pub(crate) fn take(
        path: &Path,
        within: Duration,
        mut waiting: impl FnMut(),
    ) -> Result<Self, StarterError> {
        let open = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path);
        let file = open.map_err(StarterError::io("opening", path))?;
        let started = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Self { _file: file }),
                Err(TryLockError::Error(source)) => {
                    return Err(StarterError::io("locking", path)(source));
                }
                Err(TryLockError::WouldBlock) if started.elapsed() >= within => {
                    return Err(StarterError::Locked {
                        waited_secs: within.as_secs(),
                    });
                }
                Err(TryLockError::WouldBlock) => {
                    waiting();
                    std::thread::sleep(Duration::from_millis(RETRY_MS));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_one_waits_and_gets_it_afterwards() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let first = InstallLock::take(&path, Duration::ZERO, || ()).unwrap();
        let refused = InstallLock::take(&path, Duration::ZERO, || ());
        assert!(matches!(refused, Err(StarterError::Locked { .. })));
        let mut first = Some(first);
        // The holder leaves when it sees the second one wait.
        InstallLock::take(&path, Duration::from_mins(1), || drop(first.take())).unwrap();
        assert!(first.is_none());
    }
}
