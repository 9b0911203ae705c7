//! `brokerd.toml`: the owner's grants and workspaces. Unknown keys are errors.

mod check;
mod file;
mod load;
mod workspace;

pub use file::{Config, MAX_GRANTS, MAX_PROVIDERS, MAX_WORKSPACES};
pub use load::{Loaded, load, parse};
pub use workspace::{MAX_WORKSPACE_NAME_BYTES, Workspace};
