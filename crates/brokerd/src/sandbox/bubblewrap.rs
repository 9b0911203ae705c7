//! The words that bubblewrap is given: everything that a command sees. Pure.

use super::STAGE_WORD;
use super::limits::{SMALL_TMP_BYTES, TMP_BYTES};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The program, looked for on the search path. Version 0.8 or later is needed.
pub(super) const PROGRAM: &str = "bwrap";
/// Where the session's workspace is seen.
pub(super) const WORK: &str = "/work";
/// Where the owner's folders are seen, each under its name.
pub(super) const OWNER: &str = "/owner";
/// Where the stage's executable is seen.
const STAGE: &str = "/run/boxmaker-stage";
/// The home folder, empty at each start.
const HOME: &str = "/home/box";

/// Where a sandbox has something of its own, which no folder of a program's may cover. Below `/tmp`
/// and `/usr` there is room.
const OWN: &[&str] = &["/proc", "/dev", "/sys", "/run", WORK, OWNER, HOME];
const ROOMY: &[&str] = &["/tmp", "/usr", "/etc", "/bin", "/sbin", "/lib", "/lib64"];

/// Whether a folder can be seen in a sandbox at the path that it has.
pub fn is_apart_from_sandbox(path: &Path) -> bool {
    let covers = |own: &&str| Path::new(own).starts_with(path);
    let lies_in = |own: &&str| path.starts_with(own);
    !OWN.iter().any(|own| covers(own) || lies_in(own)) && !ROOMY.iter().any(covers)
}

/// What may be changed within the sandbox.
pub(super) const WRITABLE: &[&str] = &[WORK, "/tmp", HOME, "/dev"];

/// Who a command is in there; it has no capabilities, so the number means nothing outside.
const USER: &str = "1000";

/// Files of the system's configuration without which programs in `/usr` don't work.
const SYSTEM_FILES: &[&str] = &["/etc/alternatives", "/etc/ld.so.cache", "/etc/localtime"];

/// A folder at the root of this machine that belongs to the programs in `/usr`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SystemFolder {
    /// A link, usually into `/usr`, and where it leads.
    Link(&'static str, OsString),
    /// A folder of its own, on machines that have it so.
    Folder(&'static str),
}

/// What there is to see.
#[derive(Debug)]
pub(super) struct Sights<'a> {
    pub(super) system: &'a [SystemFolder],
    pub(super) stage: &'a Path,
    /// The session's workspace; without it there is an empty folder in its place.
    pub(super) work: Option<&'a Path>,
    /// Folders that are seen where they are outside.
    pub(super) read_only: &'a [PathBuf],
    pub(super) owner: &'a [(&'a str, &'a Path)],
}

/// The arguments for a sandbox that runs the stage.
pub(super) fn arguments(sights: &Sights<'_>) -> Vec<OsString> {
    let mut words = Words(Vec::new());
    words.add(&["--unshare-all", "--unshare-user", "--disable-userns"]);
    words.add(&["--die-with-parent", "--new-session", "--as-pid-1"]);
    words.add(&["--cap-drop", "ALL", "--clearenv"]);
    words.add(&["--uid", USER, "--gid", USER, "--hostname", "box"]);
    for (name, value) in [
        ("PATH", "/usr/local/bin:/usr/bin:/bin"),
        ("HOME", HOME),
        ("USER", "box"),
        ("LANG", "C.UTF-8"),
        ("TMPDIR", "/tmp"),
        ("TERM", "dumb"),
    ] {
        words.add(&["--setenv", name, value]);
    }
    words.bind("--ro-bind", Path::new("/usr"), "/usr");
    for folder in sights.system {
        match folder {
            SystemFolder::Link(path, target) => {
                words.add(&["--symlink"]);
                words.0.push(target.clone());
                words.add(&[path]);
            }
            SystemFolder::Folder(path) => words.bind("--ro-bind", Path::new(path), path),
        }
    }
    for file in SYSTEM_FILES {
        words.bind("--ro-bind-try", Path::new(file), file);
    }
    // The kernel lets its settings be written by the user root whatever the namespace.
    words.add(&["--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys"]);
    words.add(&["--dev", "/dev"]);
    words.tmpfs("/dev/shm", SMALL_TMP_BYTES);
    words.tmpfs("/tmp", TMP_BYTES);
    words.tmpfs(HOME, SMALL_TMP_BYTES);
    for folder in sights.read_only {
        words.bind_in_place(folder);
    }
    words.bind("--ro-bind", sights.stage, STAGE);
    for (name, path) in sights.owner {
        words.bind("--ro-bind", path, &format!("{OWNER}/{name}"));
    }
    match sights.work {
        Some(work) => words.bind("--bind", work, WORK),
        None => words.tmpfs(WORK, SMALL_TMP_BYTES),
    }
    words.add(&["--remount-ro", "/dev", "--remount-ro", "/"]);
    words.add(&["--chdir", WORK, "--", STAGE, "role", STAGE_WORD]);
    words.0
}

struct Words(Vec<OsString>);

impl Words {
    fn add(&mut self, words: &[&str]) {
        self.0.extend(words.iter().map(OsString::from));
    }

    fn bind(&mut self, how: &str, from: &Path, to: &str) {
        self.add(&[how]);
        self.0.push(from.into());
        self.add(&[to]);
    }

    fn bind_in_place(&mut self, folder: &Path) {
        self.add(&["--ro-bind"]);
        self.0.push(folder.into());
        self.0.push(folder.into());
    }

    fn tmpfs(&mut self, at: &str, bytes: u64) {
        self.add(&["--size", &bytes.to_string(), "--tmpfs", at]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_workspace_is_bound_for_writing() {
        let words = arguments(&Sights {
            system: &[
                SystemFolder::Link("/bin", "usr/bin".into()),
                SystemFolder::Folder("/lib64"),
            ],
            stage: Path::new("/opt/boxmaker"),
            work: Some(Path::new("/h/workspaces/s")),
            read_only: &[],
            owner: &[("notes", Path::new("/home/o/notes"))],
        });
        let line = words.join(" ".as_ref()).into_string().unwrap();
        for expect in [
            "--unshare-all --unshare-user --disable-userns --die-with-parent --new-session",
            "--cap-drop ALL --clearenv",
            "--symlink usr/bin /bin --ro-bind /lib64 /lib64",
            "--ro-bind /home/o/notes /owner/notes --bind /h/workspaces/s /work --remount-ro",
        ] {
            assert!(line.contains(expect), "{expect}\n{line}");
        }
        let writable = words.iter().filter(|word| *word == "--bind").count();
        assert_eq!(writable, 1, "{line}");
        assert!(!line.contains("--share-net"));
    }

    #[test]
    fn a_program_without_a_workspace_can_change_nothing_that_stays() {
        let words = arguments(&Sights {
            system: &[],
            stage: Path::new("/opt/boxmaker"),
            work: None,
            read_only: &["/home/o/venv".into()],
            owner: &[],
        });
        let line = words.join(" ".as_ref()).into_string().unwrap();
        assert!(
            line.contains("--ro-bind /home/o/venv /home/o/venv"),
            "{line}"
        );
        assert!(!words.iter().any(|word| word == "--bind"), "{line}");
    }
}
