//! `backup`: one folder with everything that is kept.
//!
//! loopd copies what it writes, brokerd's own code copies its database. The sessions' files, the
//! configuration, memory and the audit log, which only grows, are plain files and copied from here.
//! Secrets, the key that signs checkpoints, logs and the starter engine are left out.

use crate::context::Context;
use crate::failure::{Failure, Outcome, file_problem};
use crate::output::bytes;
use crate::ready::ensure_up;
use bxcore::code::Code;
use bxcore::wire::loopd::{BackupReport, BackupRequest};
use bxkit::audit_reader::{CHECKPOINT_FILE, KEY_FILE};
use clap::Args;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::time::Duration;

/// How long loopd may take for its copy, in seconds.
const BACKUP_WITHIN_SECS: u64 = 3600;

/// The most files of one folder that are copied.
const MAX_FILES: usize = 1_000_000;

/// How deep folders are followed.
const MAX_DEPTH: usize = 64;

/// Options of `backup`.
#[derive(Debug, Args)]
pub struct BackupArgs {
    /// The name of the folder below `backups/` in the state folder; the time if left out.
    pub name: Option<String>,
}

pub(crate) async fn run(context: &Context<'_>, args: BackupArgs) -> Outcome {
    let connection = ensure_up(context).await?;
    let name = args.name.unwrap_or_else(|| stamp(jiff::Timestamp::now()));
    let mut progress = context.progress();
    progress.status("copying …");
    let within = Duration::from_secs(BACKUP_WITHIN_SECS);
    let mut report: BackupReport = connection
        .loopd
        .clone()
        .timeout(within)
        .post("/v1/backup", &BackupRequest { name })
        .await?;
    let folder = Path::new(&report.folder);
    let home = context.home;
    // After loopd's part: what the transcripts tell of is in brokerd's then, and in the log.
    match context.launcher {
        Some(launcher) => report.bytes += launcher.copy_ledger(home, folder)?,
        None => progress
            .note("brokerd's database is not in it: only the boxmaker executable copies that"),
    }
    for (from, to, without) in [
        (home.workspaces_dir(), "workspaces", None),
        (home.config_dir().to_owned(), "config", None),
        (home.audit_dir(), "audit", Some(KEY_FILE)),
        (home.memory_dir(), "memory", None),
    ] {
        let copied = copy(&from, &folder.join(to), without, MAX_DEPTH);
        report.bytes += copied.map_err(|failed| failed.problem())?;
    }
    progress.clear();
    if context.output.json {
        context.output.answer_json(&report)?;
    } else {
        context.output.answer(&format!(
            "{} sessions, {} in {}\n",
            report.sessions,
            bytes(report.bytes),
            report.folder
        ))?;
    }
    Ok(())
}

/// A name from the time: sorts by it, and keeps to the rule for names of backups.
fn stamp(now: jiff::Timestamp) -> String {
    now.strftime("%Y-%m-%dt%H-%M-%Sz").to_string()
}

/// What could not be copied.
struct CopyFailed {
    path: std::path::PathBuf,
    source: io::Error,
}

impl CopyFailed {
    fn problem(&self) -> Failure {
        let problem = file_problem(
            Code::HomeUnusable,
            "A file can't be copied",
            &self.path,
            &self.source,
        );
        problem
            .hint("the folder of the backup is incomplete: remove it")
            .into()
    }
}

/// Copies the files of a folder and of those in it; one that is missing has none. Gives their size in
/// bytes. Links are left out, as what they lead to is somebody else's; `without` is the name of a
/// file of the folder itself that is left out, too.
fn copy(from: &Path, to: &Path, without: Option<&str>, depth: usize) -> Result<u64, CopyFailed> {
    let failed = |path: &Path, source| CopyFailed {
        path: path.to_owned(),
        source,
    };
    let entries = match fs::read_dir(from) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(source) => return Err(failed(from, source)),
    };
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(to)
        .map_err(|source| failed(to, source))?;
    let mut entries: Vec<fs::DirEntry> = entries
        .take(MAX_FILES + 1)
        .collect::<io::Result<_>>()
        .map_err(|source| failed(from, source))?;
    if entries.len() > MAX_FILES {
        return Err(failed(from, io::Error::other("it has too many files")));
    }
    entries.retain(|entry| without.is_none_or(|name| entry.file_name() != name));
    entries.sort_by_key(|entry| (order(&entry.file_name()), entry.file_name()));
    let mut copied_bytes = 0;
    for entry in entries {
        let kind = entry
            .file_type()
            .map_err(|source| failed(&entry.path(), source))?;
        let target = to.join(entry.file_name());
        if kind.is_dir() {
            if depth == 0 {
                return Err(failed(&entry.path(), io::Error::other("it lies too deep")));
            }
            copied_bytes += copy(&entry.path(), &target, None, depth - 1)?;
        } else if kind.is_file() {
            copied_bytes +=
                fs::copy(entry.path(), target).map_err(|source| failed(&entry.path(), source))?;
        }
    }
    Ok(copied_bytes)
}

/// When a file is copied. The audit log goes on meanwhile: its checkpoints must not be ahead of the
/// records that are copied, nor these of the bodies that they name.
fn order(name: &std::ffi::OsStr) -> u8 {
    match name.as_encoded_bytes().first() {
        _ if name == CHECKPOINT_FILE => 0,
        Some(byte) if byte.is_ascii_digit() => 1,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_copied_with_their_mode_and_links_are_not_followed() {
        use std::os::unix::fs::PermissionsExt;
        let root = tempfile::tempdir().unwrap();
        let (from, to) = (root.path().join("from"), root.path().join("to"));
        fs::create_dir_all(from.join("inner")).unwrap();
        fs::write(from.join("a"), "12345").unwrap();
        fs::write(from.join("inner/b"), "678").unwrap();
        // Only the log's own is the key.
        fs::write(from.join(KEY_FILE), "a key that signs").unwrap();
        fs::write(from.join("inner").join(KEY_FILE), "9").unwrap();
        fs::set_permissions(from.join("a"), fs::Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", from.join("link")).unwrap();
        let copied = |from: &Path, depth| {
            copy(from, &to, Some(KEY_FILE), depth).map_err(|failed| failed.source)
        };
        assert_eq!(copied(&from, 1).unwrap(), 9);
        let mut names: Vec<_> = fs::read_dir(&to)
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        assert_eq!(names, ["a", "inner"]);
        assert_eq!(fs::read(to.join("inner/b")).unwrap(), b"678");
        assert_eq!(
            fs::metadata(to.join("a")).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(copied(&root.path().join("none"), 1).unwrap(), 0);
        copied(&from, 0).unwrap_err();
    }

    #[test]
    fn names_sort_by_time() {
        let name = stamp("2026-11-30T08:09:10Z".parse().unwrap());
        assert_eq!(name, "2026-11-30t08-09-10z");
        // loopd's rule for these names is that of a session's id.
        bxcore::id::SessionId::new(name).unwrap();
    }
}
