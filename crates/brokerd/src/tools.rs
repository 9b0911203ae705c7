//! The tools that run here, and the folders that they may read.
//!
//! A tool gets arguments that fit its schema and gives text with a label; it never decides whether
//! it may run, and never sees the ledger or the audit log.

mod list_dir;
mod output;
mod place;
mod read_file;
mod registry;
mod search_files;
mod workspaces;

pub use output::{Output, ToolError};
pub use place::{MAX_PATH_BYTES, MAX_PATH_PARTS, RelativePath};
pub use registry::{Registry, Run, Tool};
pub use workspaces::{Root, View, Workspaces};
