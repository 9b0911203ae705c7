//! In which way a log does not hold.

use bxcore::audit::ChainError;
use bxcore::code::Code;
use bxcore::problem::Problem;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The segment's file name.
    pub segment: String,
    /// The line, counted from 1.
    pub line: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.segment, self.line)
    }
}

/// In which way a log does not hold.
#[derive(Debug, thiserror::Error)]
pub enum AuditFault {
    /// A file or the folder can't be read.
    #[error("`{}` can't be read", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// There is no segment in the folder.
    #[error("`{}` has no segments", .0.display())]
    NoSegments(PathBuf),
    /// There are more segments than are read.
    #[error("`{}` has more than {max} segments", path.display())]
    TooManySegments {
        /// The folder.
        path: PathBuf,
        /// The limit.
        max: usize,
    },
    /// A segment does not end in a whole line.
    #[error("{segment}: the last line is torn ({bytes} bytes)")]
    Torn {
        /// The segment's file name.
        segment: String,
        /// How many bytes there are after the last whole line.
        bytes: u64,
    },
    /// A line is longer than any record can be.
    #[error("{place}: the line is longer than {max_bytes} bytes")]
    TooLong {
        /// Where.
        place: Place,
        /// The limit.
        max_bytes: u64,
    },
    /// A line does not follow from the one before.
    #[error("{place}: {why}")]
    Chain {
        /// Where.
        place: Place,
        /// In which way.
        why: ChainError,
    },
    /// A line is not a record.
    #[error("{place}: the line is not a record ({why})")]
    NotARecord {
        /// Where.
        place: Place,
        /// What the reader said.
        why: String,
    },
    /// A segment does not begin with the hash that the one before ends with.
    #[error("{place}: the segment does not begin with the hash that the one before it ends with")]
    Prev {
        /// Where.
        place: Place,
    },
    /// The numbers have a gap.
    #[error("{place}: number {found} after {before}")]
    Gap {
        /// Where.
        place: Place,
        /// The number that stands there.
        found: u64,
        /// The number of the record before.
        before: u64,
    },
    /// A body is not what its length and digest say.
    #[error("{place}: the body is not the one whose length and digest are on record")]
    Body {
        /// Where.
        place: Place,
    },
    /// A payload file is missing or is not what its name says.
    #[error("{place}: payload file {sha256} is missing or differs")]
    Payload {
        /// Where.
        place: Place,
        /// The file's name.
        sha256: String,
    },
    /// An outcome names no earlier intent.
    #[error("{place}: an outcome without an earlier intent")]
    Outcome {
        /// Where.
        place: Place,
    },
    /// The log does not have the record that it was expected to have.
    #[error("record {seq} is missing or has another hash")]
    Head {
        /// The record's number.
        seq: u64,
    },
}

impl AuditFault {
    /// The runbook code: of a log that does not hold, or of one that can't be read.
    pub fn code(&self) -> Code {
        match self {
            Self::Unreadable { .. } => Code::AuditUnavailable,
            _ => Code::AuditChainBroken,
        }
    }

    /// The fault as a person meets it.
    pub fn problem(&self) -> Problem {
        let title = match self {
            Self::Unreadable { .. } => "The audit log can't be read",
            _ => "The audit log does not hold",
        };
        Problem::new(self.code(), title).detail(crate::report::chain(self))
    }
}

impl From<AuditFault> for Problem {
    fn from(fault: AuditFault) -> Self {
        fault.problem()
    }
}
