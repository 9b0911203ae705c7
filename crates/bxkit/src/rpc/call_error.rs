//! Why a call to a role failed.

use bxcore::code::Code;
use bxcore::problem::Problem;
use std::io;
use std::path::PathBuf;

/// Why a call to a role failed.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// Nobody listens: the role is not there, and nothing of the call has reached it.
    #[error("nobody answers at `{}`", socket.display())]
    Unreachable {
        /// Where it should have been.
        socket: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The role answered that it won't, and why.
    #[error("{0}")]
    Refused(Problem),
    /// The call began and did not end well: whether it took effect is unknown.
    #[error("the call to `{path}` broke: {why}")]
    Broken {
        /// The address that was called.
        path: String,
        /// In which way.
        why: Break,
    },
}

/// In which way a call broke.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Break {
    /// The connection ended before the answer did.
    #[error("the connection was cut ({0})")]
    CutOff(String),
    /// No answer began in time.
    #[error("no answer within {secs} s")]
    TimedOut {
        /// The limit.
        secs: u64,
    },
    /// The answer is not what was asked for.
    #[error("the answer can't be understood ({0})")]
    Garbled(String),
    /// The answer is larger than the limit.
    #[error("the answer is larger than {max_bytes} bytes")]
    TooLarge {
        /// The limit.
        max_bytes: usize,
    },
}

impl CallError {
    /// The runbook code: of the role's own answer if there is one.
    pub fn code(&self) -> Code {
        match self {
            Self::Refused(problem) => problem.code,
            Self::Unreachable { .. }
            | Self::Broken {
                why: Break::CutOff(_) | Break::TimedOut { .. },
                ..
            } => Code::RoleUnreachable,
            Self::Broken { .. } => Code::Internal,
        }
    }

    /// The error as a person meets it.
    pub fn problem(&self) -> Problem {
        match self {
            Self::Refused(problem) => problem.clone(),
            Self::Unreachable { socket, source } => {
                Problem::new(self.code(), "A part of Boxmaker can't be reached")
                    .detail(format!("{}: {source}", socket.display()))
                    .hint("`boxmaker status` shows what runs, `boxmaker up` starts it")
            }
            Self::Broken { path, why } => {
                Problem::new(self.code(), "A call inside Boxmaker broke off")
                    .detail(format!("{path}: {why}"))
                    .hint("`boxmaker status` shows what runs; the logs say what happened")
            }
        }
    }

    pub(super) fn broken(path: &str, why: Break) -> Self {
        Self::Broken {
            path: path.to_owned(),
            why,
        }
    }

    pub(super) fn cut_off(path: &str, error: &(dyn std::error::Error + 'static)) -> Self {
        Self::broken(path, Break::CutOff(crate::report::chain(error)))
    }
}

impl From<CallError> for Problem {
    fn from(error: CallError) -> Self {
        error.problem()
    }
}
