//! Giving up, before any work, whatever a role has no use for.
//!
//! Landlock for files and TCP ports, where the kernel has it; seccomp for system calls, always.

mod apply;
mod command;
mod landlock;
mod plan;
mod syscalls;

pub use apply::{ConfineError, Report, confine, in_force};
pub use command::{confine_command, confine_launcher};
pub use landlock::Enforcement;
pub use plan::{Confinement, ConnectPorts, IpSockets, Programs};
