//! The memory folder: which files there are, and reading and writing them. Blocks.

mod error;
mod listing;
mod open;

pub use error::FolderError;
pub use listing::{Found, MAX_FILES, MAX_FOLDER_NAMES};
pub use open::{Folder, Loaded, MAX_WRITE_TRIES, Stamp};
