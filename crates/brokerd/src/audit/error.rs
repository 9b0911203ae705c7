//! Why the audit log can't be written.

use bxcore::code::Code;
use bxcore::problem::Problem;
use bxkit::audit_reader::AuditFault;
use std::io;
use std::path::PathBuf;

/// Why the audit log can't be written. None of these is ever retried.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// Another process writes this log.
    #[error("another process writes the log in `{}`", .0.display())]
    Held(PathBuf),
    /// A file could not be opened, written or synced.
    #[error("`{}` can't be written", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The segment that is being written was removed or replaced by somebody else.
    #[error("`{}` is not the file that is being written any more", .0.display())]
    Replaced(PathBuf),
    /// The log that is there does not hold.
    #[error(transparent)]
    Fault(#[from] AuditFault),
    /// The log lacks a record that it had: its end was cut off, or it is an older copy.
    #[error("record {seq}, which was signed, is not in the log, or has another hash")]
    Behind {
        /// The record's number.
        seq: u64,
    },
    /// A record can't be written as JSON: a fault of the program.
    #[error("a record can't be written as JSON")]
    Json(#[source] serde_json::Error),
    /// There is no number left for a segment.
    #[error("`{}` has no room for another segment", .0.display())]
    NoSegmentLeft(PathBuf),
    /// Something of the above happened before.
    #[error("the log has failed before and is not written any more")]
    Stopped,
}

impl AuditError {
    /// The runbook code.
    pub fn code(&self) -> Code {
        match self {
            Self::Held(_) => Code::HomeHeld,
            Self::Fault(fault) => fault.code(),
            Self::Behind { .. } => Code::AuditChainBroken,
            _ => Code::AuditUnavailable,
        }
    }

    /// The error as a person meets it.
    pub fn problem(&self) -> Problem {
        let (title, hint) = match self {
            Self::Held(_) => (
                "Another brokerd is running in this home",
                "`boxmaker down` stops it",
            ),
            Self::Fault(fault) if fault.code() == Code::AuditChainBroken => (
                "The chain of the audit log is broken",
                "`boxmaker audit verify` shows where",
            ),
            Self::Behind { .. } => (
                "The audit log is not the one that was written here last",
                "put the log's folder back as it was; the runbook page says what to do if it is gone",
            ),
            Self::Replaced(_) => (
                "The audit log was moved or removed while it was written, so nothing may run",
                "put the file back as it was, or from a backup, before the next start",
            ),
            _ => (
                "The audit log can't be written, so nothing may run",
                "check the disk's space and health",
            ),
        };
        Problem::new(self.code(), title)
            .detail(bxkit::report::chain(self))
            .hint(hint)
    }
}

impl From<AuditError> for Problem {
    fn from(error: AuditError) -> Self {
        error.problem()
    }
}
