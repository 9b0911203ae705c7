//! Why the starter engine could not be set up or started, and what a person can do about it.

use super::consent::megabytes;
use super::packages::OLDEST_PYTHON;
use bxcore::code::Code;
use bxcore::problem::Problem;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

/// The longest line of pip's that is shown, in characters.
const MAX_WORDS_CHARS: usize = 160;

/// How the way around the starter engine is written everywhere.
const POINT_AT_A_SERVER: &str = "or point at a model server: boxmaker backend add NAME URL";

/// Why pip did not install the packages, as far as its words tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PipFailure {
    /// The package index can't be reached, or has nothing to offer.
    Network,
    /// The disk is full.
    DiskFull,
    /// A file is not the one that is pinned.
    HashMismatch,
    /// There is no file for this machine or this Python.
    NoWheel,
    /// Anything else.
    Other,
}

/// Why setting up or starting the starter engine failed.
#[derive(Debug, thiserror::Error)]
pub enum StarterError {
    /// No usable Python is on the search path; `found` has those that are too old.
    #[error("no Python {}.{} or newer was found{}", OLDEST_PYTHON.0, OLDEST_PYTHON.1, also(found))]
    NoPython {
        /// Versions that were found, too old.
        found: Vec<String>,
    },
    /// Python is there, pip is not.
    #[error("{} has neither `pip` nor `ensurepip`", python.display())]
    NoPip {
        /// The Python that was tried.
        python: PathBuf,
    },
    /// There is not enough room on the disk.
    #[error("{} has {} MB free, {} MB are needed", dir.display(), megabytes(*free_bytes), megabytes(*needed_bytes))]
    NoSpace {
        /// Where it would be installed.
        dir: PathBuf,
        /// What is free there.
        free_bytes: u64,
        /// What is needed.
        needed_bytes: u64,
    },
    /// pip failed.
    #[error("pip could not install the packages: {}", kind.summary(tail))]
    Pip {
        /// Why, as far as its words tell.
        kind: PipFailure,
        /// Its last lines.
        tail: String,
    },
    /// What was installed does not work.
    #[error("the installed engine does not load: {tail}")]
    Unusable {
        /// What Python said.
        tail: String,
    },
    /// Another process has been installing for too long.
    #[error("another process has been setting it up for {waited_secs} s")]
    Locked {
        /// How long this one waited.
        waited_secs: u64,
    },
    /// It is not installed, or not completely.
    #[error("the starter engine is not installed in {}", dir.display())]
    NotInstalled {
        /// Where it was looked for.
        dir: PathBuf,
    },
    /// The server ended before it was ready.
    #[error("the starter engine ended before it was ready ({status}): {tail}")]
    ServerExited {
        /// How it ended.
        status: ExitStatus,
        /// Its last lines.
        tail: String,
    },
    /// The server did not become ready in time.
    #[error("the starter engine was not ready after {waited_secs} s: {tail}")]
    ServerSilent {
        /// How long was waited.
        waited_secs: u64,
        /// Its last lines.
        tail: String,
    },
    /// The system refused something.
    #[error("{doing} {}", path.display())]
    Io {
        /// What was being done, as a gerund.
        doing: &'static str,
        /// To which file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The system has no random bytes to give.
    #[error("the system's random source")]
    Random(#[source] getrandom::Error),
}

fn also(found: &[String]) -> String {
    if found.is_empty() {
        String::new()
    } else {
        format!(", only {}", found.join(", "))
    }
}

impl StarterError {
    /// For `map_err`: the system refused `doing` to `path`.
    pub(crate) fn io(
        doing: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io {
            doing,
            path,
            source,
        }
    }

    /// The runbook code.
    pub fn code(&self) -> Code {
        match self {
            Self::NoSpace { .. }
            | Self::Pip {
                kind: PipFailure::DiskFull,
                ..
            } => Code::DiskFull,
            Self::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                Code::DiskFull
            }
            _ => Code::StarterFailed,
        }
    }

    /// The failure as it is shown to a person.
    pub fn problem(&self) -> Problem {
        let mut detail = self.to_string();
        if let Some(source) = std::error::Error::source(self) {
            detail = format!("{detail}: {source}");
        }
        Problem::new(self.code(), self.title())
            .detail(detail)
            .hint(self.hint())
    }

    fn title(&self) -> &'static str {
        match self {
            Self::NotInstalled { .. } | Self::ServerExited { .. } | Self::ServerSilent { .. } => {
                "The starter engine could not be started"
            }
            _ => "The starter engine could not be set up",
        }
    }

    fn hint(&self) -> String {
        let first = match self {
            Self::NoPython { .. } => "install Python 3 (with pip)".to_owned(),
            Self::NoPip { .. } => {
                "install Python's pip (on Debian and Ubuntu: python3-pip)".to_owned()
            }
            Self::NoSpace { .. } => "make room on that disk".to_owned(),
            Self::Pip { kind, .. } => kind.hint().to_owned(),
            Self::Locked { .. } => "wait until it is done, and try again".to_owned(),
            Self::Unusable { .. } | Self::NotInstalled { .. } => {
                "try again: it is then set up anew".to_owned()
            }
            Self::ServerExited { .. } | Self::ServerSilent { .. } => {
                "try again; if it stays so, delete the folder starter/ of the state folder"
                    .to_owned()
            }
            Self::Io { .. } | Self::Random(_) => "see to what the system says".to_owned(),
        };
        format!("{first}\n{POINT_AT_A_SERVER}")
    }
}

impl PipFailure {
    /// What went wrong, in a line; pip's own words only where nothing else tells.
    fn summary(self, tail: &str) -> String {
        match self {
            Self::Network => "the package index can't be reached, or does not have them".to_owned(),
            Self::DiskFull => "the disk is full".to_owned(),
            Self::HashMismatch => "a file is not the pinned one".to_owned(),
            Self::NoWheel => "there is no build for this machine".to_owned(),
            Self::Other => last_words(tail),
        }
    }

    fn hint(self) -> &'static str {
        match self {
            Self::Network => {
                "see that the package index can be reached, and has builds for this machine (pip's own settings are honoured: pip.conf, PIP_INDEX_URL, proxies)"
            }
            Self::DiskFull => "make room on that disk",
            Self::HashMismatch => {
                "the package index gave another file than the pinned one: nothing was installed; ask its operator"
            }
            Self::NoWheel => {
                "there is no build for this machine or its Python (64-bit Linux with glibc, or macOS 13, on x86-64 or ARM)"
            }
            Self::Other => "see to what pip says, and try again",
        }
    }
}

/// The last line that a program said, short enough to be read.
fn last_words(tail: &str) -> String {
    let line = tail.lines().rfind(|line| !line.trim().is_empty());
    let line = line.unwrap_or("it said nothing").trim();
    let mut words: String = line.chars().take(MAX_WORDS_CHARS).collect();
    if words.len() < line.len() {
        words.push('…');
    }
    words
}

impl From<StarterError> for Problem {
    fn from(error: StarterError) -> Self {
        error.problem()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(problem: &Problem) -> String {
        format!(
            "{problem}\n{}",
            problem.hint.as_deref().unwrap_or("no hint")
        )
    }

    #[test]
    fn a_person_reads_what_is_wrong_and_how_to_go_on() {
        let problem = StarterError::NoPython {
            found: vec!["3.8.18 (/usr/bin/python3)".to_owned()],
        }
        .problem();
        insta::assert_snapshot!(shown(&problem), @r"
        The starter engine could not be set up: no Python 3.10 or newer was found, only 3.8.18 (/usr/bin/python3)
        install Python 3 (with pip)
        or point at a model server: boxmaker backend add NAME URL
        ");
        let problem = StarterError::NoPip {
            python: "/usr/bin/python3".into(),
        }
        .problem();
        insta::assert_snapshot!(shown(&problem), @r"
        The starter engine could not be set up: /usr/bin/python3 has neither `pip` nor `ensurepip`
        install Python's pip (on Debian and Ubuntu: python3-pip)
        or point at a model server: boxmaker backend add NAME URL
        ");
        let error = StarterError::NoSpace {
            dir: "/s".into(),
            free_bytes: 12_000_000,
            needed_bytes: 500_000_000,
        };
        insta::assert_snapshot!(error.problem().to_string(), @"The starter engine could not be set up: /s has 12 MB free, 500 MB are needed");
    }

    #[test]
    fn what_pip_repeats_is_told_in_a_line() {
        let pip = |kind, tail: &str| {
            let tail = tail.to_owned();
            StarterError::Pip { kind, tail }.problem().to_string()
        };
        let retries = "WARNING: Retrying (Retry(total=4)) after connection broken\n".repeat(5);
        insta::assert_snapshot!(pip(PipFailure::Network, &retries), @"The starter engine could not be set up: pip could not install the packages: the package index can't be reached, or does not have them");
        let long = format!("first\nlast {}\n\n", "x".repeat(500));
        let shown = pip(PipFailure::Other, &long);
        assert!(
            shown.contains(": last xxx") && shown.ends_with('…'),
            "{shown}"
        );
        assert!(shown.len() < 300, "{shown}");
    }

    #[test]
    fn a_full_disk_has_its_own_code_wherever_it_shows() {
        let io = StarterError::Io {
            doing: "writing",
            path: "/s".into(),
            source: io::ErrorKind::StorageFull.into(),
        };
        let pip = StarterError::Pip {
            kind: PipFailure::DiskFull,
            tail: String::new(),
        };
        for error in [io, pip] {
            assert_eq!(error.code(), Code::DiskFull);
        }
        let pip = StarterError::Pip {
            kind: PipFailure::Network,
            tail: String::new(),
        };
        assert_eq!(pip.code(), Code::StarterFailed);
    }
}
