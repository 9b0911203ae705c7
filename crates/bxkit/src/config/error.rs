//! What is wrong with a configuration file, and where.

use super::snippet::Snippet;
use bxcore::code::Code;
use bxcore::problem::Problem;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A value that the types admit and the role doesn't.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidValue {
    /// The key, as a path of names and indices: `backend.0.url`.
    pub key: String,
    /// What is wrong with the value.
    pub why: String,
    /// What could be written instead.
    pub hint: Option<String>,
}

impl InvalidValue {
    /// Names the key and what is wrong with its value.
    pub fn new(key: impl Into<String>, why: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            why: why.into(),
            hint: None,
        }
    }

    /// Adds what could be written instead.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Why a configuration file can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file is there but can't be read, is not text, or is larger than the limit.
    #[error("`{}` can't be read", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Others than its owner could have written it, or it is no file at all.
    #[error("`{}` can't be trusted: {why}", path.display())]
    Unsafe {
        /// The file.
        path: PathBuf,
        /// Which condition does not hold.
        why: &'static str,
    },
    /// The content is wrong.
    #[error("{snippet}")]
    Invalid {
        /// The place and what is wrong there.
        snippet: Snippet,
        /// What to do, for example the nearest known key.
        hint: Option<String>,
    },
}

impl ConfigError {
    pub(super) fn at(
        path: &Path,
        text: &str,
        span: Range<usize>,
        message: &str,
        hint: Option<String>,
    ) -> Self {
        Self::Invalid {
            snippet: Snippet::new(path, text, span, message),
            hint,
        }
    }

    /// The runbook code, always [`Code::ConfigInvalid`].
    pub fn code(&self) -> Code {
        Code::ConfigInvalid
    }

    /// The error as a person meets it.
    pub fn problem(&self) -> Problem {
        match self {
            Self::Unreadable { path, source } => {
                Problem::new(Code::ConfigInvalid, "A configuration file can't be read")
                    .detail(format!("{}: {source}", path.display()))
                    .hint("it must be a readable UTF-8 text of at most 1 MiB")
            }
            Self::Unsafe { path, why } => {
                Problem::new(Code::ConfigInvalid, "A configuration file can't be trusted")
                    .detail(format!("{}: {why}", path.display()))
                    .hint(format!(
                        "look who changed it, then: chmod 600 '{0}' (and chown it to yourself)",
                        path.display()
                    ))
            }
            Self::Invalid { snippet, hint } => {
                let mut problem =
                    Problem::new(Code::ConfigInvalid, "A configuration file is wrong")
                        .detail(snippet.to_string());
                problem.hint.clone_from(hint);
                problem
            }
        }
    }
}

impl From<ConfigError> for Problem {
    fn from(error: ConfigError) -> Self {
        error.problem()
    }
}
