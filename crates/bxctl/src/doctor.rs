//! What can be wrong with a box, looked at piece by piece.

mod finding;
mod kernel;
mod local;
mod programs;
mod running;
mod servers;

pub(crate) use finding::{Finding, Level, render};
pub(crate) use kernel::kernel;
pub(crate) use local::{configuration, disk, folders, outside, workspaces};
pub(crate) use programs::{bubblewrap, python, starter};
pub(crate) use running::running;
