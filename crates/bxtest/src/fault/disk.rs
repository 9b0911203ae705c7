//! A disk that is soon full: a tmpfs of a few KiB over one folder.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::home::Cmd;

/// A tiny tmpfs at a folder.
///
/// Where the test may mount, it is mounted for everybody until this is dropped. Elsewhere it exists
/// in a user namespace of the command that is [wrapped](SmallDisk::wrap) only.
#[derive(Debug)]
pub struct SmallDisk {
    path: PathBuf,
    kib: u32,
    mounted: bool,
}

impl SmallDisk {
    /// A disk of `kib` KiB at `path`, which is created where it is missing.
    ///
    /// # Panics
    /// When neither a mount nor a user namespace is allowed here.
    pub fn new(path: &Path, kib: u32) -> Self {
        std::fs::create_dir_all(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let path = path.canonicalize().expect("a folder that exists");
        let mounted = quiet(Command::new("mount").args(mount_args(kib)).arg(&path));
        assert!(
            mounted || namespaces_work(),
            "no small disk can be mounted here: run the test as root, or type: \
             sudo sysctl -w kernel.unprivileged_userns_clone=1 \
             kernel.apparmor_restrict_unprivileged_userns=0"
        );
        Self { path, kib, mounted }
    }

    /// The command, run where the disk is.
    pub fn wrap<'h>(&self, command: Cmd<'h>) -> Cmd<'h> {
        if self.mounted {
            return command;
        }
        let script = format!(
            "mount {} \"$0\" && exec \"$@\"",
            mount_args(self.kib).join(" ")
        );
        let mut args: Vec<String> = UNSHARE_ARGS.map(str::to_owned).to_vec();
        args.extend([
            "sh".to_owned(),
            "-c".to_owned(),
            script,
            self.path.display().to_string(),
        ]);
        command.under(Path::new("unshare"), &args)
    }

    /// The disk's folder as process `pid` of a wrapped command sees it.
    pub fn seen_by(&self, pid: u32) -> PathBuf {
        if self.mounted {
            return self.path.clone();
        }
        let inside = self.path.strip_prefix("/").expect("an absolute path");
        PathBuf::from(format!("/proc/{pid}/root")).join(inside)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        if self.mounted {
            // Lazily: a process that still holds a file there doesn't keep the mount.
            quiet(Command::new("umount").arg("-l").arg(&self.path));
        }
    }
}

const UNSHARE_ARGS: [&str; 3] = ["--user", "--map-root-user", "--mount"];

fn mount_args(kib: u32) -> Vec<String> {
    [
        "-t",
        "tmpfs",
        "-o",
        &format!("size={kib}k,mode=700"),
        "tmpfs",
    ]
    .map(str::to_owned)
    .to_vec()
}

fn namespaces_work() -> bool {
    quiet(Command::new("unshare").args(UNSHARE_ARGS).arg("true"))
}

fn quiet(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}
