//! The tools that run here, and the folders that they may read and write.
//!
//! A tool gets arguments that fit its schema and gives text with a label; it never decides whether
//! it may run, and never sees the ledger or the audit log.

mod list_dir;
mod output;
mod place;
mod read_file;
mod registry;
mod search_files;
mod shell;
mod touch;
mod workspaces;
mod write_file;

pub use output::{Output, ToolError};
pub use place::{MAX_PATH_BYTES, MAX_PATH_PARTS, RelativePath};
pub use registry::{Registry, Run, TOOL_TIMEOUT_SECS, Tool};
pub use touch::{Place, Places, Touch};
pub use workspaces::{MAX_WRITTEN_BYTES, Root, View, Workspaces};
