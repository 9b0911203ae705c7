//! Folders, files and space.

use super::finding::{Finding, Level};
use crate::context::Context;
use crate::output::bytes;
use bxcore::code::Code;
use bxcore::label::{Class, Label};
use bxcore::problem::Problem;
use bxcore::role::Role;
use serde::Deserialize;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

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

/// What `brokerd.toml` says of folders that are shared with sessions.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Shared {
    workspace: Vec<SharedFolder>,
}

#[derive(Debug, Deserialize)]
struct SharedFolder {
    path: PathBuf,
    name: Option<String>,
    #[serde(default = "private")]
    class: Class,
    #[serde(default)]
    untrusted: bool,
}

const fn private() -> Class {
    Class::Private
}

/// The folders that are shared with sessions, and whether each can be read.
pub(crate) fn workspaces(context: &Context<'_>) -> Vec<Finding> {
    let path = context.home.config_file(Role::Brokerd);
    // A file that is wrong was told as such already.
    let shared: Shared = bxkit::config::load(&path).unwrap_or_default();
    shared.workspace.iter().map(workspace).collect()
}

fn workspace(folder: &SharedFolder) -> Finding {
    let own = folder.path.file_name().unwrap_or_default();
    let name = folder
        .name
        .clone()
        .unwrap_or_else(|| own.to_string_lossy().into_owned());
    let what = format!("workspace {name}");
    let label = Label::new(folder.class, folder.untrusted);
    let shown = folder.path.display();
    match std::fs::read_dir(&folder.path) {
        Ok(_) => Finding::ok(what, format!("{shown} ({label})")),
        Err(error) => Finding::warn(
            what,
            format!("{shown}: {error}, so sessions don't see it"),
            "correct `path` in brokerd.toml or make the folder readable, then `boxmaker down`",
        ),
    }
}

/// What is sent with, where something may be sent: the secrets, and each service.
pub(crate) fn outside(context: &Context<'_>) -> Vec<Finding> {
    let checked = context
        .launcher
        .map(|launcher| launcher.check_outside(context.home));
    let finding = |(what, found): (String, Result<String, Problem>)| match found {
        Ok(found) => Finding::ok(what, found),
        // Without a grant it is kept from being used, which may be what is wanted.
        Err(problem) if problem.code == Code::NoGrant => {
            Finding::problem(Level::Warn, what, &problem)
        }
        Err(problem) => Finding::problem(Level::Fail, what, &problem),
    };
    checked.into_iter().flatten().map(finding).collect()
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
    fn a_workspace_that_is_not_there_is_noticed() {
        let root = tempfile::tempdir().unwrap();
        let text = format!(
            "[[workspace]]\npath = \"{0}\"\nname = \"notes\"\nuntrusted = true\n\
             [[workspace]]\npath = \"{0}/none\"\n",
            root.path().display()
        );
        let shared: Shared = toml::from_str(&text).unwrap();
        let found: Vec<Finding> = shared.workspace.iter().map(workspace).collect();
        assert_eq!(found[0].level, Level::Ok);
        assert_eq!(found[0].what, "workspace notes");
        assert!(
            found[0].found.ends_with("(private, untrusted)"),
            "{found:?}"
        );
        assert_eq!(found[1].level, Level::Warn);
        assert_eq!(found[1].what, "workspace none");
    }

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
