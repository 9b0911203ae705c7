//! Folders, files and space.

use super::finding::{Finding, Level};
use crate::context::Context;
use crate::output::bytes;
use bxcore::problem::Problem;
use bxcore::role::Role;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Less free space than this and writing may soon fail, in bytes.
const LOW_SPACE_BYTES: u64 = 1 << 30;

/// Less than this and it will, in bytes.
const NO_SPACE_BYTES: u64 = 64 << 20;

/// Whether the folders are there and the owner's alone.
pub(crate) fn folders(context: &Context<'_>) -> Vec<Finding> {
    let home = context.home;
    [
        ("configuration", home.config_dir()),
        ("state", home.state_dir()),
        ("run folder", home.run_dir()),
    ]
    .into_iter()
    .map(|(what, path)| folder(what, path))
    .collect()
}

fn folder(what: &str, path: &Path) -> Finding {
    let shown = path.display();
    let found = match path.symlink_metadata() {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Finding::ok(what, format!("{shown} (made when it is needed)"));
        }
        Err(error) => {
            return Finding::fail(
                what,
                format!("{shown}: {error}"),
                "make it readable, or set BOXMAKER_HOME",
            );
        }
    };
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Finding::fail(
            what,
            format!("{shown} belongs to another user"),
            "set BOXMAKER_HOME to a folder of yours",
        );
    }
    if !found.is_dir() {
        return Finding::fail(
            what,
            format!("{shown} is not a folder"),
            "look at it, then remove it",
        );
    }
    let mode = found.mode() & 0o777;
    if mode & 0o077 != 0 {
        let todo = format!("chmod 700 {shown}");
        return Finding::warn(
            what,
            format!("{shown} has mode {mode:o}: others may get in"),
            todo,
        );
    }
    Finding::ok(what, shown.to_string())
}

/// Whether there is space to write to.
pub(crate) fn disk(context: &Context<'_>) -> Finding {
    let state = context.home.state_dir();
    let there = state
        .ancestors()
        .find(|path| path.exists())
        .unwrap_or(Path::new("/"));
    let free_bytes = match rustix::fs::statvfs(there) {
        Ok(stat) => stat.f_bavail.saturating_mul(stat.f_frsize),
        Err(error) => return Finding::warn("disk", error.to_string(), "check the file system"),
    };
    let found = format!("{} free at {}", bytes(free_bytes), there.display());
    let todo = "make room: what is said and decided is written before it counts";
    match free_bytes {
        0..NO_SPACE_BYTES => Finding::fail("disk", found, todo),
        NO_SPACE_BYTES..LOW_SPACE_BYTES => Finding::warn("disk", found, todo),
        _ => Finding::ok("disk", found),
    }
}

/// Whether each role can read its configuration.
pub(crate) fn configuration(context: &Context<'_>) -> Vec<Finding> {
    Role::ALL
        .into_iter()
        .map(|role| config_file(context, role))
        .collect()
}

fn config_file(context: &Context<'_>, role: Role) -> Finding {
    let path = context.home.config_file(role);
    let what = format!("{role}.toml");
    if path
        .symlink_metadata()
        .is_err_and(|error| error.kind() == ErrorKind::NotFound)
    {
        return Finding::ok(what, "not there: everything at its default");
    }
    let checked = match context.launcher {
        Some(launcher) => launcher.check_config(context.home, role, &path),
        None => readable(&path),
    };
    match checked {
        Ok(()) => Finding::ok(what, "valid"),
        Err(problem) => Finding::problem(Level::Fail, what, &problem),
    }
}

/// What a client without the roles can say: that the file is TOML.
fn readable(path: &Path) -> Result<(), Problem> {
    bxkit::config::load::<toml::Table>(path)
        .map(drop)
        .map_err(|error| error.problem())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn an_open_folder_is_noticed() {
        let root = tempfile::tempdir().unwrap();
        let set = |mode| {
            std::fs::set_permissions(root.path(), std::fs::Permissions::from_mode(mode)).unwrap();
        };
        set(0o700);
        assert_eq!(folder("state", root.path()).level, Level::Ok);
        set(0o755);
        let finding = folder("state", root.path());
        assert_eq!(finding.level, Level::Warn);
        assert!(finding.todo.unwrap().starts_with("chmod 700"));
        assert_eq!(folder("state", &root.path().join("none")).level, Level::Ok);
        let file = root.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert_eq!(folder("state", &file).level, Level::Fail);
    }
}
