//! What can go wrong with memory files.

use crate::file::{EditError, MAX_FILE_BYTES};
use bxcore::code::Code;
use bxcore::id::MemoryFile;
use bxcore::problem::Problem;
use bxkit::fsx;
use std::io;
use std::path::PathBuf;

/// Why a memory file was not read or not changed.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// What is there is no memory file.
    #[error("`{}` can't be used: {why}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The system refused.
    #[error("`{}` can't be {what}", path.display())]
    System {
        /// The file or the folder.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// Somebody else changed it between reading and writing, at each try.
    #[error("`{}` was changed by somebody else meanwhile", .0.display())]
    Changed(PathBuf),
    /// There are as many files as there may be.
    #[error("there are {max} files in memory already")]
    TooManyFiles {
        /// The limit.
        max: usize,
    },
    /// The change can't be made.
    #[error("`{}`: {source}", file.file_name())]
    Edit {
        /// The file.
        file: MemoryFile,
        /// Why not.
        source: EditError,
    },
    /// A session that has read untrusted data may not take out what is trusted.
    #[error("the session has read untrusted data, and `{}` has a trusted entry of this id", .0.file_name())]
    Untrusted(MemoryFile),
}

impl FolderError {
    /// The runbook code.
    pub fn code(&self) -> Code {
        match self {
            Self::Unusable { .. } => Code::MemoryFileUnusable,
            Self::System { source, .. } => fsx::code_for(source, Code::MemoryFileUnusable),
            Self::Changed(_) => Code::MemoryChanged,
            Self::TooManyFiles { .. } => Code::MemoryFull,
            Self::Edit { source, .. } => match source {
                EditError::Unknown(_) => Code::MemoryEntryUnknown,
                EditError::Empty => Code::InvalidArguments,
                EditError::TooLong { .. } | EditError::Full => Code::MemoryFull,
            },
            Self::Untrusted(_) => Code::UntrustedSession,
        }
    }

    fn hint(&self) -> &'static str {
        match self.code() {
            Code::MemoryEntryUnknown => "list shows the entries with their ids",
            Code::MemoryFull => "write less, or remove what is no longer needed",
            Code::MemoryChanged => "try again",
            Code::UntrustedSession => "the owner can remove it by hand",
            Code::InvalidArguments => "give a text",
            Code::DiskFull => "make room on the disk",
            _ => "move it away, or mend it",
        }
    }
}

impl From<FolderError> for Problem {
    fn from(error: FolderError) -> Self {
        Self::new(error.code(), "Memory was not read or changed")
            .detail(bxkit::report::chain(&error))
            .hint(error.hint())
    }
}

/// What is wrong with a file of this many bytes or of these.
pub(super) fn unfit(bytes: &[u8]) -> Option<&'static str> {
    if bytes.len() > MAX_FILE_BYTES {
        return Some("it is longer than 256 KiB");
    }
    if bytes.contains(&0) || std::str::from_utf8(bytes).is_err() {
        return Some("it is not text in UTF-8");
    }
    None
}
