//! What a process prints: kept in a bounded file, and the last of it in memory.

use bxcore::code::Code;
use bxcore::problem::Problem;
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The size at which a log is set aside as `<name>.log.1`, in place of the one before, in bytes.
pub(crate) const MAX_LOG_BYTES: u64 = 4 * 1024 * 1024;

/// How many lines are kept in memory.
const MAX_TAIL_LINES: usize = 40;

/// A log file that never grows past [`MAX_LOG_BYTES`].
#[derive(Debug)]
pub(crate) struct LogFile {
    path: PathBuf,
    file: Option<File>,
    written_bytes: u64,
}

impl LogFile {
    /// Opens the log of a process, to add to it.
    pub(crate) fn open(folder: &Path, name: &str) -> Self {
        let mut log = Self {
            path: folder.join(format!("{name}.log")),
            file: None,
            written_bytes: 0,
        };
        // A log that can't be written is no reason not to run.
        let _ = log.reopen();
        log
    }

    /// Adds a line.
    pub(crate) fn line(&mut self, line: &str) {
        if self.written_bytes >= MAX_LOG_BYTES {
            let _ = self.rotate();
        }
        let Some(file) = &mut self.file else { return };
        let text = format!("{line}\n");
        if file.write_all(text.as_bytes()).is_ok() {
            self.written_bytes += text.len() as u64;
        }
    }

    fn reopen(&mut self) -> io::Result<()> {
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(&self.path)?;
        self.written_bytes = file.metadata()?.len();
        self.file = Some(file);
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        self.file = None;
        let aside = self.path.with_extension("log.1");
        if std::fs::rename(&self.path, aside).is_err() {
            // It stays where it is then; what matters is that it doesn't grow.
            std::fs::write(&self.path, "")?;
        }
        self.reopen()
    }
}

/// The last lines of a process.
#[derive(Debug, Default, Clone)]
pub(crate) struct Tail {
    lines: VecDeque<String>,
}

impl Tail {
    /// Adds a line, in place of the oldest when there are enough.
    pub(crate) fn push(&mut self, line: String) {
        if self.lines.len() == MAX_TAIL_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }

    /// The problem that a process printed last, as `bxkit::report` renders it.
    pub(crate) fn problem(&self) -> Option<Problem> {
        let begins = |line: &String| line.starts_with("error[");
        let start = self.lines.iter().rposition(begins)?;
        let mut lines = self.lines.range(start..).map(String::as_str);
        let (code, title) = lines.next()?.strip_prefix("error[")?.split_once("]: ")?;
        let mut problem = Problem::new(Code::parse(code)?, title);
        let (mut detail, mut hint) = (Vec::new(), Vec::new());
        for line in lines {
            if line.starts_with("  see: ") {
                break;
            }
            if let Some(first) = line.strip_prefix("  try: ") {
                hint.push(first);
            } else if !hint.is_empty() {
                hint.push(line.trim_start());
            } else {
                detail.push(line.strip_prefix("  ").unwrap_or(line));
            }
        }
        problem.detail = joined(&detail);
        problem.hint = joined(&hint);
        Some(problem)
    }
}

fn joined(lines: &[&str]) -> Option<String> {
    (!lines.is_empty()).then(|| lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_problem_is_read_back() {
        let problem = Problem::new(Code::ConfigInvalid, "A configuration file is wrong")
            .detail("loopd.toml:1:1\n  1 | x = 1")
            .hint("did you mean `y`?\nor not");
        let mut tail = Tail::default();
        tail.push("INFO starting".into());
        let printed = bxkit::report::render_problem(&problem, false);
        printed.lines().for_each(|line| tail.push(line.to_owned()));
        assert_eq!(tail.problem(), Some(problem));
        assert_eq!(Tail::default().problem(), None);
    }

    #[test]
    fn a_tail_forgets_the_oldest() {
        let mut tail = Tail::default();
        tail.push("error[internal]: x".into());
        (0..MAX_TAIL_LINES).for_each(|line| tail.push(line.to_string()));
        assert_eq!(tail.problem(), None);
    }

    #[test]
    fn a_full_log_is_set_aside_once() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = LogFile::open(folder.path(), "loopd");
        let line = "x".repeat(1 << 20);
        for _ in 0..9 {
            log.line(&line);
        }
        let size = |name: &str| std::fs::metadata(folder.path().join(name)).unwrap().len();
        assert!(size("loopd.log.1") <= MAX_LOG_BYTES + (2 << 20));
        assert!(size("loopd.log") <= MAX_LOG_BYTES + (2 << 20));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
