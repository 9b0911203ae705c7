//! Confining what runs commands for a tool: the process that builds sandboxes, and what is inside.
//!
//! Decides nothing about what a command sees or how long it may run.

use super::apply::{ConfineError, filter_calls, seal};
use super::landlock::{Enforcement, restrict_command};
use super::syscalls::{command_filters, launcher_filter};
use std::path::PathBuf;

/// Gives up what building sandboxes does not need.
///
/// Namespaces and mounts stay, so Landlock can't be used: it forbids mounting. To be called before
/// any thread is started; whatever is started later is bound by it too.
///
/// # Errors
/// The kernel has no seccomp, or refuses the filter.
pub fn confine_launcher() -> Result<(), ConfineError> {
    seal()?;
    let filter = launcher_filter().map_err(|error| ConfineError::Calls(error.into()))?;
    filter_calls(&filter)
}

/// Gives up, within a sandbox, whatever a command has no use for: it may read and run what it
/// sees, and change only what lies in `writable`.
///
/// # Errors
/// The kernel has no seccomp, or refuses the rules. A kernel without Landlock is no error: the
/// mounts of the sandbox hold by themselves.
pub fn confine_command(writable: &[PathBuf]) -> Result<Enforcement, ConfineError> {
    seal()?;
    let enforcement = restrict_command(writable).map_err(ConfineError::Files)?;
    let filters = command_filters().map_err(|error| ConfineError::Calls(error.into()))?;
    filters.iter().try_for_each(filter_calls)?;
    Ok(enforcement)
}
