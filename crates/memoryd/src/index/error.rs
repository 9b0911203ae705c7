//! What can go wrong with the index.

use bxcore::code::Code;
use bxcore::problem::Problem;
use bxkit::fsx;
use std::io;

/// Why the index can't be used.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// The database refuses.
    #[error("the index can't be used")]
    Database(#[from] rusqlite::Error),
    /// A file or a folder can't be read.
    #[error("what is to be searched can't be read")]
    Read(#[from] io::Error),
}

impl IndexError {
    /// Whether making the index anew may help: it is damaged, or not there any more.
    pub(super) fn is_damage(&self) -> bool {
        use rusqlite::ErrorCode as E;
        let Self::Database(error) = self else {
            return false;
        };
        !matches!(
            error.sqlite_error_code(),
            Some(E::DiskFull | E::OutOfMemory | E::DatabaseBusy | E::DatabaseLocked)
        )
    }
}

impl From<IndexError> for Problem {
    fn from(error: IndexError) -> Self {
        let code = match &error {
            IndexError::Database(failed)
                if failed.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull) =>
            {
                Code::DiskFull
            }
            IndexError::Database(_) => Code::Internal,
            IndexError::Read(source) => fsx::code_for(source, Code::Internal),
        };
        Self::new(code, "Memory can't be searched")
            .detail(bxkit::report::chain(&error))
            .hint("`state/memoryd` may be deleted at any time: it is made anew")
    }
}
