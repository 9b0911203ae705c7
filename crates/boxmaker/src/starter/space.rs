//! Room on the disk, asked for before anything is downloaded.

use super::error::StarterError;
use std::path::Path;

/// Fails where less than `needed_bytes` are free in `dir`'s file system for this user.
///
/// A file system that doesn't tell is taken to have room: pip finds out.
pub(crate) fn check(dir: &Path, needed_bytes: u64) -> Result<(), StarterError> {
    let Ok(stat) = rustix::fs::statvfs(dir) else {
        return Ok(());
    };
    let free_bytes = stat.f_bavail.saturating_mul(stat.f_frsize);
    if free_bytes < needed_bytes {
        return Err(StarterError::NoSpace {
            dir: dir.to_owned(),
            free_bytes,
            needed_bytes,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_room_is_told_before_anything_happens() {
        let dir = tempfile::tempdir().unwrap();
        assert!(check(dir.path(), 1).is_ok());
        let error = check(dir.path(), u64::MAX).unwrap_err();
        assert!(matches!(
            error,
            StarterError::NoSpace {
                needed_bytes: u64::MAX,
                ..
            }
        ));
    }
}
