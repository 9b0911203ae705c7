//! Programs of others that some things need.

use super::finding::Finding;
use crate::context::Context;
use crate::output::bytes;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// Whether tools that run code or read strangers' files can be put into a sandbox.
pub(crate) fn bubblewrap() -> Finding {
    let what = "bubblewrap";
    if !on_path("bwrap") {
        return Finding::warn(
            what,
            "not found: tools that need a sandbox refuse to run",
            "install it, on Debian and Ubuntu: sudo apt install bubblewrap",
        );
    }
    let arguments = [
        "--unshare-all",
        "--unshare-user",
        "--disable-userns",
        "--die-with-parent",
        "--ro-bind",
        "/",
        "/",
        "true",
    ];
    match outcome("bwrap", &arguments) {
        Ok(done) if done.status.success() => Finding::ok(what, "a sandbox can be made"),
        Ok(done) => Finding::warn(
            what,
            format!("a sandbox can't be made: {}", first_line(&done.stderr)),
            "allow user namespaces; on Ubuntu: sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0",
        ),
        Err(error) => Finding::warn(
            what,
            error.to_string(),
            "check the installation of bubblewrap",
        ),
    }
}

/// Whether the starter engine could be set up.
pub(crate) fn python() -> Finding {
    let what = "Python";
    let todo = "only the starter engine needs it; on Debian and Ubuntu: sudo apt install python3";
    match outcome("python3", &["--version"]) {
        Ok(done) if done.status.success() => {
            let version = first_line(&[done.stdout, done.stderr].concat());
            match outcome("python3", &["-c", "import venv, ensurepip"]) {
                Ok(venv) if venv.status.success() => Finding::ok(what, version),
                _ => Finding::ok(
                    what,
                    format!("{version}, without the venv module (pip is used in its place)"),
                ),
            }
        }
        _ => Finding::warn(what, "python3 not found", todo),
    }
}

/// Whether the starter engine is there.
pub(crate) fn starter(context: &Context<'_>) -> Option<Finding> {
    let facts = context.launcher?.starter(context.home);
    let found = if facts.installed {
        "set up".to_owned()
    } else {
        format!(
            "not set up (a download of {}, made when no model server is found)",
            bytes(facts.download_bytes)
        )
    };
    Some(Finding::ok("starter engine", found))
}

fn on_path(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|folder: PathBuf| folder.join(name))
        .any(|file| file.is_file())
}

fn outcome(program: &str, arguments: &[&str]) -> std::io::Result<Output> {
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
}

fn first_line(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes)
        .lines()
        .next()
        .unwrap_or_default()
        .to_owned()
}
