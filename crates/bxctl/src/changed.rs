//! Configuration that was changed after the roles had read it: it counts from the next start only,
//! and whoever forgot that looks for a mistake where there is none.

use crate::context::Context;
use bxcore::role::Role;
use bxkit::home::Home;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What to do about it.
pub(crate) const START_AGAIN: &str = "boxmaker down; the next command starts with it";

/// The configuration files that were changed since the roles that run read them.
pub(crate) fn configuration(home: &Home) -> Vec<PathBuf> {
    let files = Role::ALL.map(|role| (role, home.config_file(role)));
    let files = files.into_iter();
    let changed = files.filter(|(role, file)| is_newer(file, &home.socket(*role)));
    changed.map(|(_, file)| file).collect()
}

/// The secrets that were changed since brokerd read them at its start.
pub(crate) fn secrets(home: &Home) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(home.secrets_dir()) else {
        return Vec::new();
    };
    let socket = home.socket(Role::Brokerd);
    let files = entries.filter_map(|entry| Some(entry.ok()?.path()));
    files.filter(|file| is_newer(file, &socket)).collect()
}

/// Says beside the answer that a file was changed, where one was.
pub(crate) fn tell(context: &Context<'_>) {
    if context.output.json {
        return;
    }
    for file in configuration(context.home) {
        let name = file.file_name().unwrap_or(file.as_os_str());
        context.output.note(&format!(
            "{} was changed after Boxmaker had started → {START_AGAIN}",
            name.display()
        ));
    }
}

/// Whether a file was changed, replaced or moved to its place after a role had bound its socket,
/// which it does once it has read its configuration.
///
/// The time of the last change of the file's state tells, and not that of its content: a file that
/// is moved over another, or taken from a backup, brings an old one with it.
fn is_newer(file: &Path, socket: &Path) -> bool {
    let (Ok(file), Ok(socket)) = (file.metadata(), socket.symlink_metadata()) else {
        return false;
    };
    (file.ctime(), file.ctime_nsec()) > (socket.mtime(), socket.mtime_nsec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_file_that_was_moved_to_its_place_is_newer_than_the_start() {
        let root = tempfile::tempdir().unwrap();
        let home = Home::at(root.path());
        home.create().unwrap();
        let (file, other) = (home.config_file(Role::Brokerd), root.path().join("other"));
        for path in [&file, &other] {
            std::fs::write(path, "").unwrap();
        }
        assert_eq!(configuration(&home), Vec::<PathBuf>::new(), "nothing runs");
        // The clock of a file system moves in steps.
        let step = || std::thread::sleep(std::time::Duration::from_millis(50));
        step();
        let _listener = UnixListener::bind(home.socket(Role::Brokerd)).unwrap();
        assert_eq!(configuration(&home), Vec::<PathBuf>::new());
        step();
        std::fs::rename(&other, &file).unwrap();
        assert_eq!(configuration(&home), [file]);
        assert_eq!(secrets(&home), Vec::<PathBuf>::new());
        std::fs::write(home.secrets_dir().join("key"), "x").unwrap();
        assert_eq!(secrets(&home), [home.secrets_dir().join("key")]);
    }
}
