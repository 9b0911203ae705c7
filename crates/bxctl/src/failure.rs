//! How a command ends when it doesn't end well.

use crate::output::Gone;
use bxcore::code::Code;
use bxcore::problem::Problem;
use bxkit::exit;
use bxkit::rpc::CallError;
use std::io;
use std::path::Path;
use std::process::ExitCode;

/// How a command ends when it doesn't end well.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// Something that the person is told.
    #[error("{0}")]
    Told(Problem),
    /// The reader of the answers is gone, or they can't be written.
    #[error(transparent)]
    Gone(#[from] Gone),
    /// It was stopped by the person.
    #[error("stopped")]
    Stopped,
    /// Everything was said already; only the exit code is left.
    #[error("ended with {0}")]
    Said(u8),
}

/// How a command ends.
pub(crate) type Outcome = Result<(), Failure>;

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self::Told(problem)
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        Self::Told(error.problem())
    }
}

impl Failure {
    /// A problem with a title alone.
    pub(crate) fn new(code: Code, title: impl Into<String>) -> Self {
        Self::Told(Problem::new(code, title))
    }

    /// What there is to tell, if anything.
    pub(crate) fn problem(&self) -> Option<Problem> {
        match self {
            Self::Told(problem) => Some(problem.clone()),
            Self::Gone(gone) if gone.is_reader_gone() => None,
            Self::Gone(gone) => {
                let code = bxkit::fsx::code_for(&gone.0, Code::Internal);
                let problem = Problem::new(code, "The answer can't be written");
                Some(problem.detail(format!("standard output: {}", gone.0)))
            }
            Self::Stopped | Self::Said(_) => None,
        }
    }

    /// The exit code of the process.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Told(problem) => exit::of_command(problem.code),
            // A reader that had enough is no failure of ours.
            Self::Gone(gone) if gone.is_reader_gone() => exit::EXIT_OK,
            Self::Gone(_) => exit::FAILED,
            Self::Stopped => exit::STOPPED,
            Self::Said(code) => *code,
        })
    }
}

/// A problem with a local file or folder; `code` says whose it is, unless the disk is full.
pub(crate) fn file_problem(code: Code, title: &str, path: &Path, error: &io::Error) -> Problem {
    let code = bxkit::fsx::code_for(error, code);
    Problem::new(code, title).detail(format!("{}: {error}", path.display()))
}
