//! Folders that are ours alone, and the private run folder of a home with a long path.

use super::error::HomeError;
use super::place::Place;
use crate::fsx;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The longest record of a run folder that is looked at.
const MAX_RECORD_BYTES: usize = 256;

/// How many further names are tried when somebody else sits on the first.
const MAX_RUN_FOLDER_TRIES: u32 = 8;

/// The file in the state folder that names the run folder, when that isn't below the home.
pub(super) const RECORD: &str = "run-folder";

/// Makes a folder for us alone, or checks and tightens one that is there.
pub(super) fn make_private(path: &Path) -> Result<(), HomeError> {
    let failed = |source| HomeError::Folder {
        path: path.to_owned(),
        source,
    };
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(failed)?;
    let found = path.metadata().map_err(failed)?;
    if found.uid() != own_uid() {
        return Err(HomeError::NotPrivate {
            path: path.to_owned(),
            why: "it belongs to another user",
        });
    }
    if found.mode() & 0o077 != 0 {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700)).map_err(failed)?;
    }
    Ok(())
}

/// Refuses a folder in which everybody may put folders in place of ours.
pub(super) fn refuse_open(path: &Path) -> Result<(), HomeError> {
    /// Others may write, and the sticky bit doesn't keep them from what is ours.
    const OPEN: u32 = 0o002;
    const STICKY: u32 = 0o1000;
    let found = path.metadata().map_err(|source| HomeError::Folder {
        path: path.to_owned(),
        source,
    })?;
    if found.mode() & (OPEN | STICKY) == OPEN {
        return Err(HomeError::NotPrivate {
            path: path.to_owned(),
            why: "everybody may write in it",
        });
    }
    Ok(())
}

/// Makes a run folder at `path`, or accepts the one there if it is private already.
///
/// Unlike the other folders it is never tightened: in `/tmp` a folder with wider rights may hold
/// what somebody else put there.
pub(super) fn make_run(path: &Path) -> Result<(), HomeError> {
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(source) => {
            return Err(HomeError::Folder {
                path: path.to_owned(),
                source,
            });
        }
    }
    match not_private(path) {
        None => Ok(()),
        Some(why) => Err(HomeError::NotPrivate {
            path: path.to_owned(),
            why,
        }),
    }
}

/// The recorded run folder, if it is still there and still ours alone.
pub(super) fn recorded(state: &Path) -> Option<PathBuf> {
    let record = fsx::read_nofollow_private(&state.join(RECORD)).ok()?;
    if record.len() > MAX_RECORD_BYTES {
        return None;
    }
    let path = PathBuf::from(std::str::from_utf8(&record).ok()?.trim_end_matches('\n'));
    (path.is_absolute() && not_private(&path).is_none()).then_some(path)
}

/// The short run folder to use: the first candidate that is free or ours alone.
///
/// The first choice is the same for every process of a home; where another user sits on that name,
/// a few more are tried. With all of them taken the first is given, and making it will say why not.
pub(super) fn short_run(place: &Place) -> PathBuf {
    (0..MAX_RUN_FOLDER_TRIES)
        .map(|attempt| {
            let mut name = place.short_run.clone().into_os_string();
            if attempt > 0 {
                name.push(format!("-{attempt}"));
            }
            PathBuf::from(name)
        })
        .find(|path| path.symlink_metadata().is_err() || not_private(path).is_none())
        .unwrap_or_else(|| place.short_run.clone())
}

/// Records where the run folder is, for those whose environment would say otherwise.
pub(super) fn record(state: &Path, run: &Path) -> Result<(), HomeError> {
    let path = state.join(RECORD);
    let line = format!("{}\n", run.display());
    fsx::write_atomic(&path, line.as_bytes(), 0o600).map_err(|source| HomeError::Folder {
        path: state.to_owned(),
        source,
    })
}

/// Which condition keeps a folder from being ours alone; none if all hold.
fn not_private(path: &Path) -> Option<&'static str> {
    match path.symlink_metadata() {
        Err(_) => Some("it can't be looked at"),
        Ok(found) if found.is_symlink() => Some("it is a symbolic link"),
        Ok(found) if !found.is_dir() => Some("it is not a folder"),
        Ok(found) if found.uid() != own_uid() => Some("it belongs to another user"),
        Ok(found) if found.mode() & 0o077 != 0 => Some("group or others have rights on it"),
        Ok(_) => None,
    }
}

fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}
