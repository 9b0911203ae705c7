//! `backup`: one folder with everything that is kept.
//!
//! loopd copies what it writes, brokerd's own code copies its database. The sessions' files, the
//! configuration, memory and the audit log, which only grows, are plain files and copied from here.
//! Secrets, the key that signs checkpoints, logs and the starter engine are left out.

use crate::context::Context;
use crate::failure::{Failure, Outcome, file_problem};
use crate::output::{bytes, one_line};
use crate::ready::ensure_up;
use bxcore::code::Code;
use bxcore::wire::loopd::{BackupReport, BackupRequest};
use bxkit::audit_reader::{CHECKPOINT_FILE, KEY_FILE};
use bxkit::exit;
use clap::Args;
use serde_json::json;
use std::ffi::OsString;
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

/// How many of the files that were left out are named.
const MAX_TOLD: usize = 10;

/// The longest path that is shown, in characters.
const MAX_PATH_CHARS: usize = 200;

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
        (home.config_dir().to_owned(), "config", None),
        (home.audit_dir(), "audit", Some(KEY_FILE)),
        (home.memory_dir(), "memory", None),
    ] {
        let copied = Copying::whole().copy(&from, &folder.join(to), without, MAX_DEPTH);
        report.bytes += copied.map_err(|failed| failed.problem())?;
    }
    // What a session did to its own folder must not keep everything else from being copied.
    let mut sessions = Copying::lenient();
    let copied = sessions.copy(
        &home.workspaces_dir(),
        &folder.join("workspaces"),
        None,
        MAX_DEPTH,
    );
    report.bytes += copied.map_err(|failed| failed.problem())?;
    progress.clear();
    tell(context, &report, &sessions.left_out)
}

/// Tells what was copied, and what was not.
fn tell(context: &Context<'_>, report: &BackupReport, left_out: &[CopyFailed]) -> Outcome {
    let output = &context.output;
    let shown: Vec<String> = left_out.iter().map(CopyFailed::shown).collect();
    if output.json {
        let mut value = json!(report);
        value["left_out"] = json!(shown);
        output.answer_json(&value)?;
    } else {
        output.answer(&format!(
            "{} sessions, {} in {}\n",
            report.sessions,
            bytes(report.bytes),
            report.folder
        ))?;
        for line in shown.iter().take(MAX_TOLD) {
            output.note(&format!("left out: {line}"));
        }
        if shown.len() > MAX_TOLD {
            output.note(&format!("left out: {} more", shown.len() - MAX_TOLD));
        }
    }
    if left_out.is_empty() {
        return Ok(());
    }
    Err(Failure::Said(exit::FAILED))
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
    /// Where and why, on one line.
    fn shown(&self) -> String {
        let path = one_line(&self.path.to_string_lossy(), MAX_PATH_CHARS);
        format!("{path}: {}", self.source)
    }

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

/// Copies folders, whole or as far as they can be read.
struct Copying {
    is_lenient: bool,
    /// What could not be read and was left out.
    left_out: Vec<CopyFailed>,
}

impl Copying {
    const fn whole() -> Self {
        Self {
            is_lenient: false,
            left_out: Vec::new(),
        }
    }

    const fn lenient() -> Self {
        Self {
            is_lenient: true,
            left_out: Vec::new(),
        }
    }

    /// Leaves out what can't be read, if that may be; what can't be written never may.
    fn leave_out(&mut self, failed: CopyFailed) -> Result<u64, CopyFailed> {
        if !self.is_lenient {
            return Err(failed);
        }
        self.left_out.push(failed);
        Ok(0)
    }

    /// Copies the files of a folder and of those in it; one that is missing has none. Gives their
    /// size in bytes. Links are left out, as what they lead to is somebody else's; `without` is the
    /// name of a file of the folder itself that is left out, too.
    fn copy(
        &mut self,
        from: &Path,
        to: &Path,
        without: Option<&str>,
        depth: usize,
    ) -> Result<u64, CopyFailed> {
        let mut entries = match entries(from) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            Err(source) => return self.leave_out(failed(from, source)),
        };
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(to)
            .map_err(|source| failed(to, source))?;
        entries.retain(|(name, _)| without.is_none_or(|without| name != without));
        entries.sort_by_key(|(name, _)| (order(name), name.clone()));
        let mut copied_bytes = 0;
        for (name, kind) in entries {
            let (path, target) = (from.join(&name), to.join(&name));
            copied_bytes += if kind.is_dir() && depth == 0 {
                self.leave_out(failed(&path, io::Error::other("it lies too deep")))?
            } else if kind.is_dir() {
                self.copy(&path, &target, None, depth - 1)?
            } else if kind.is_file() {
                self.copy_file(&path, &target)?
            } else {
                0
            };
        }
        Ok(copied_bytes)
    }

    fn copy_file(&mut self, path: &Path, target: &Path) -> Result<u64, CopyFailed> {
        match fs::File::open(path) {
            Ok(_) => fs::copy(path, target).map_err(|source| failed(path, source)),
            Err(source) => self.leave_out(failed(path, source)),
        }
    }
}

fn failed(path: &Path, source: io::Error) -> CopyFailed {
    CopyFailed {
        path: path.to_owned(),
        source,
    }
}

/// What is in a folder.
fn entries(folder: &Path) -> io::Result<Vec<(OsString, fs::FileType)>> {
    let entries = fs::read_dir(folder)?.take(MAX_FILES + 1);
    let entries = entries.map(|entry| {
        let entry = entry?;
        Ok((entry.file_name(), entry.file_type()?))
    });
    let entries: Vec<_> = entries.collect::<io::Result<_>>()?;
    if entries.len() > MAX_FILES {
        return Err(io::Error::other("it has too many files"));
    }
    Ok(entries)
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
            let copied = Copying::whole().copy(from, &to, Some(KEY_FILE), depth);
            copied.map_err(|failed| failed.source)
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
        // Whoever may leave out has all the rest.
        let mut lenient = Copying::lenient();
        let rest = root.path().join("rest");
        let copied = lenient.copy(&from, &rest, Some(KEY_FILE), 0);
        assert_eq!(copied.map_err(|failed| failed.source).unwrap(), 5);
        let left_out: Vec<String> = lenient.left_out.iter().map(CopyFailed::shown).collect();
        let inner = from.join("inner");
        assert_eq!(left_out, [format!("{}: it lies too deep", inner.display())]);
    }

    #[test]
    fn names_sort_by_time() {
        let name = stamp("2026-11-30T08:09:10Z".parse().unwrap());
        assert_eq!(name, "2026-11-30t08-09-10z");
        // loopd's rule for these names is that of a session's id.
        bxcore::id::SessionId::new(name).unwrap();
    }
}
