//! The commands, one file each.

pub(crate) mod approvals;
pub(crate) mod ask;
pub(crate) mod audit;
pub(crate) mod backend;
pub(crate) mod backup;
pub(crate) mod chat;
pub(crate) mod completions;
pub(crate) mod doctor;
pub(crate) mod down;
pub(crate) mod endorse;
pub(crate) mod grants;
pub(crate) mod init;
pub(crate) mod jobs;
pub(crate) mod man;
pub(crate) mod mcp;
pub(crate) mod memory;
pub(crate) mod session;
pub(crate) mod sessions;
pub(crate) mod slots;
pub(crate) mod status;
pub(crate) mod up;
mod walk;
