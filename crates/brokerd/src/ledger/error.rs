//! Why the ledger can't do what it was asked.

use bxcore::code::Code;
use bxcore::id::{ApprovalId, SessionId};
use bxcore::problem::Problem;
use rusqlite::ErrorCode;
use std::path::PathBuf;

/// Why the ledger can't do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// The database can't be opened.
    #[error("`{}` can't be opened", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the database said.
        source: rusqlite::Error,
    },
    /// A copy of the database can't be made.
    #[error("`{}` can't be written", path.display())]
    Copy {
        /// The copy, or its folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The database is damaged.
    #[error("`{}` is damaged: {found}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What its own check found.
        found: String,
    },
    /// A later version of Boxmaker wrote it.
    #[error("`{}` has version {found}, this program knows up to {known}", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// The version that it has.
        found: u32,
        /// The latest that is known.
        known: u32,
    },
    /// A statement failed.
    #[error("the ledger can't be read or written")]
    Sql(#[from] rusqlite::Error),
    /// An approval is not as far as was thought.
    #[error("approval {0} was moved by somebody else")]
    Moved(ApprovalId),
    /// No session has this id.
    #[error("no session `{0}` is known")]
    UnknownSession(SessionId),
    /// A session can't have this parent.
    #[error("`{session}` can't be made a child of `{parent}`: {why}")]
    Parent {
        /// The session.
        session: SessionId,
        /// The parent that was named.
        parent: SessionId,
        /// Why not.
        why: &'static str,
    },
    /// The line of ancestors is too long.
    #[error("`{session}` would have more than {max} ancestors")]
    TooDeep {
        /// The session.
        session: SessionId,
        /// The limit.
        max: usize,
    },
}

impl LedgerError {
    /// The runbook code.
    pub fn code(&self) -> Code {
        match self {
            Self::Sql(error) | Self::Open { source: error, .. } if is_full(error) => Code::DiskFull,
            Self::Open { .. }
            | Self::Damaged { .. }
            | Self::Newer { .. }
            | Self::Moved(_)
            | Self::Sql(_) => Code::StateBroken,
            Self::Copy { source, .. } => bxkit::fsx::code_for(source, Code::HomeUnusable),
            Self::UnknownSession(_) => Code::SessionUnknown,
            Self::Parent { .. } => Code::BadRequest,
            Self::TooDeep { .. } => Code::DeniedByGuardrail,
        }
    }

    /// The error as a person meets it.
    pub fn problem(&self) -> Problem {
        let title = match self {
            Self::UnknownSession(_) => "The session is not known",
            Self::Parent { .. } | Self::TooDeep { .. } => "The session can't have this parent",
            Self::Copy { .. } => "The ledger of labels can't be copied",
            _ => "The ledger of labels can't be used",
        };
        let problem = Problem::new(self.code(), title).detail(bxkit::report::chain(self));
        match self {
            Self::UnknownSession(_) => problem.hint("`boxmaker sessions` lists them"),
            _ => problem,
        }
    }
}

/// Whether space would help. Without any, SQLite can't make its shared index large enough and calls
/// that an input/output error of its own.
fn is_full(error: &rusqlite::Error) -> bool {
    let shared_index = rusqlite::ffi::SQLITE_IOERR_SHMSIZE;
    error.sqlite_error().is_some_and(|error| {
        error.code == ErrorCode::DiskFull || error.extended_code == shared_index
    })
}

impl From<LedgerError> for Problem {
    fn from(error: LedgerError) -> Self {
        error.problem()
    }
}
