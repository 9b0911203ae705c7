//! Why a home can't be used.

use bxcore::code::Code;
use bxcore::problem::Problem;
use std::io;
use std::path::PathBuf;

/// Why a home can't be used.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    /// Neither `BOXMAKER_HOME` nor `HOME` says where it is.
    #[error("neither BOXMAKER_HOME nor HOME names a folder")]
    Unknown,
    /// A relative path, and the current folder is unknown.
    #[error("the current folder is unknown")]
    CurrentFolder(#[source] io::Error),
    /// A folder can't be made or looked at.
    #[error("the folder `{}` can't be used", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A folder is there, but not ours alone.
    #[error("the folder `{}` is not private: {why}", path.display())]
    NotPrivate {
        /// The folder.
        path: PathBuf,
        /// Which condition does not hold.
        why: &'static str,
    },
}

impl HomeError {
    /// The runbook code.
    pub fn code(&self) -> Code {
        match self {
            Self::Folder { source, .. } => crate::fsx::code_for(source, Code::HomeUnusable),
            _ => Code::HomeUnusable,
        }
    }

    /// The error as a person meets it.
    pub fn problem(&self) -> Problem {
        let mut problem = Problem::new(self.code(), "The home folder can't be used");
        problem.detail = Some(crate::report::chain(self));
        problem.hint(match self {
            Self::Unknown | Self::CurrentFolder(_) => "set BOXMAKER_HOME to an absolute path",
            Self::Folder { .. } => {
                "make the folder writable for you, or set BOXMAKER_HOME to another"
            }
            Self::NotPrivate { .. } => {
                "check who made the folder, then remove it or set its mode to 0700"
            }
        })
    }
}

impl From<HomeError> for Problem {
    fn from(error: HomeError) -> Self {
        error.problem()
    }
}
