//! Finds a Python that can serve the starter engine, and learns what it can do.

use super::error::StarterError;
use super::packages::OLDEST_PYTHON;
use serde::Deserialize;
use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Names under which a usable Python may stand on the search path, in the order of preference.
const NAMES: &[&str] = &[
    "python3",
    "python3.13",
    "python3.12",
    "python3.11",
    "python3.10",
    "python3.14",
    "python",
];

/// A search path has a few folders; no more of them are looked into.
const MAX_FOLDERS: usize = 64;

/// How long a Python may take to say what it is, in seconds: the first start on a cold disk is slow.
const PROBE_SECS: u64 = 30;

/// A Python's answer is one short line.
const MAX_ANSWER_BYTES: u64 = 4096;

/// How often it is looked whether the answer is there, in milliseconds.
const POLL_MS: u64 = 10;

/// What a Python is asked: its version, where it really is, and which modules it has.
const QUESTION: &str = "\
import importlib.util as u, json, sys
has = lambda name: u.find_spec(name) is not None
print(json.dumps({'version': list(sys.version_info[:3]), 'executable': sys.executable,
    'pip': has('pip'), 'own_pip': has('venv') and has('ensurepip')}))
";

/// A Python that runs, and what it can do.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Python {
    version: (u32, u32, u32),
    /// Where it is.
    pub(crate) executable: PathBuf,
    /// Whether it has pip.
    pub(crate) pip: bool,
    /// Whether it can give pip to an environment that it makes.
    pub(crate) own_pip: bool,
}

impl Python {
    fn is_new_enough(&self) -> bool {
        (self.version.0, self.version.1) >= OLDEST_PYTHON
    }

    /// How well it is suited: one with pip before one that has to make it first.
    fn rank(&self) -> u8 {
        match (self.pip, self.own_pip) {
            (true, _) => 2,
            (false, true) => 1,
            (false, false) => 0,
        }
    }

    fn shown(&self) -> String {
        let (major, minor, patch) = self.version;
        format!("{major}.{minor}.{patch} ({})", self.executable.display())
    }
}

/// Reads what a Python answered to the question; none for what isn't an answer.
fn parse(answer: &[u8]) -> Option<Python> {
    // A site's start-up files may print before the answer does.
    let last = answer
        .split(|byte| *byte == b'\n')
        .rfind(|line| !line.trim_ascii().is_empty())?;
    let python: Python = serde_json::from_slice(last).ok()?;
    (!python.executable.as_os_str().is_empty()).then_some(python)
}

/// Chooses the best of those that were found, which stand in the order of preference.
fn choose(found: Vec<Python>) -> Result<Python, StarterError> {
    let (usable, old): (Vec<_>, Vec<_>) = found.into_iter().partition(Python::is_new_enough);
    let best = usable.iter().map(Python::rank).max();
    match usable
        .into_iter()
        .find(|python| Some(python.rank()) == best)
    {
        Some(python) if python.rank() == 0 => Err(StarterError::NoPip {
            python: python.executable,
        }),
        Some(python) => Ok(python),
        None => Err(StarterError::NoPython {
            found: old.iter().map(Python::shown).collect(),
        }),
    }
}

/// Finds the best Python on a search path such as `PATH` has.
pub(crate) fn find(search_path: &OsStr) -> Result<Python, StarterError> {
    let mut found: Vec<Python> = Vec::new();
    for name in NAMES {
        let mut files = std::env::split_paths(search_path)
            .take(MAX_FOLDERS)
            .map(|folder| folder.join(name));
        let Some(file) = files.find(|file| file.is_file()) else {
            continue;
        };
        let Some(python) = probe(&file) else { continue };
        let perfect = python.is_new_enough() && python.rank() == 2;
        if !found.contains(&python) {
            found.push(python);
        }
        if perfect {
            break;
        }
    }
    choose(found)
}

/// Asks one Python what it is; none if it doesn't run, or isn't a Python 3.
fn probe(file: &Path) -> Option<Python> {
    let mut command = Command::new(file);
    // Isolated: neither the current folder nor the person's own modules are looked at.
    command
        .args(["-I", "-c", QUESTION])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let started = Instant::now();
    let ended = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status.success(),
            Ok(None) if started.elapsed() < Duration::from_secs(PROBE_SECS) => {
                std::thread::sleep(Duration::from_millis(POLL_MS));
            }
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                break false;
            }
        }
    };
    let mut answer = Vec::new();
    child
        .stdout
        .take()?
        .take(MAX_ANSWER_BYTES)
        .read_to_end(&mut answer)
        .ok()?;
    parse(&answer).filter(|_| ended)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn python(version: (u32, u32, u32), pip: bool, own_pip: bool) -> Python {
        let executable = format!("/usr/bin/python{}.{}", version.0, version.1).into();
        Python {
            version,
            executable,
            pip,
            own_pip,
        }
    }

    fn check_parse(answer: &str, expect: Option<&Python>) {
        assert_eq!(parse(answer.as_bytes()).as_ref(), expect, "{answer}");
    }

    #[test]
    fn an_answer_is_read_whatever_stands_before_it() {
        let good = r#"{"version": [3, 11, 7], "executable": "/usr/bin/python3.11", "pip": true, "own_pip": false}"#;
        check_parse(good, Some(&python((3, 11, 7), true, false)));
        check_parse(
            &format!("loading site\n{good}\n\n"),
            Some(&python((3, 11, 7), true, false)),
        );
        check_parse("", None);
        check_parse("Python 3.11.7", None);
        check_parse(
            r#"{"version": [3], "executable": "/p", "pip": true, "own_pip": true}"#,
            None,
        );
        check_parse(
            r#"{"version": [3, 11, 7], "executable": "", "pip": true, "own_pip": true}"#,
            None,
        );
    }

    #[test]
    fn the_best_suited_is_chosen_and_the_first_among_equals() {
        let bare = python((3, 12, 1), false, false);
        let makes_pip = python((3, 13, 0), false, true);
        let with_pip = python((3, 10, 13), true, true);
        let old = python((3, 9, 18), true, true);
        let check = |found: &[&Python], expect: &Python| {
            let found = found.iter().copied().cloned().collect();
            assert_eq!(&choose(found).unwrap(), expect);
        };
        check(&[&bare, &makes_pip, &with_pip], &with_pip);
        check(&[&old, &makes_pip, &bare], &makes_pip);
        check(&[&with_pip, &python((3, 14, 0), true, true)], &with_pip);
    }

    #[test]
    fn what_is_missing_is_named() {
        let error = choose(vec![python((3, 9, 18), true, true)]).unwrap_err();
        insta::assert_snapshot!(error.to_string(), @"no Python 3.10 or newer was found, only 3.9.18 (/usr/bin/python3.9)");
        let error = choose(Vec::new()).unwrap_err();
        insta::assert_snapshot!(error.to_string(), @"no Python 3.10 or newer was found");
        let error = choose(vec![python((3, 12, 1), false, false)]).unwrap_err();
        insta::assert_snapshot!(error.to_string(), @"/usr/bin/python3.12 has neither `pip` nor `ensurepip`");
    }

    #[test]
    fn a_search_path_without_python_finds_none() {
        let empty = tempfile::tempdir().unwrap();
        assert!(matches!(
            find(empty.path().as_os_str()),
            Err(StarterError::NoPython { .. })
        ));
    }
}
