//! Applying a plan to this process.

use super::landlock::{Enforcement, missing, restrict};
use super::plan::Confinement;
use super::syscalls::filter;
use bxcore::code::Code;
use bxcore::problem::Problem;
use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
use seccompiler::BpfProgram;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::OnceLock;

/// What is enforced from now on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// How much Landlock enforces; the system calls are always filtered.
    pub landlock: Enforcement,
    /// Paths to write to that were not there, so that no right to them could be kept.
    pub missing: Vec<PathBuf>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seccomp full, landlock {}", self.landlock)
    }
}

/// Why a process could not be confined.
#[derive(Debug, thiserror::Error)]
pub enum ConfineError {
    /// A limit of the process can't be set.
    #[error("the process can't be limited")]
    Process(#[source] io::Error),
    /// Landlock is there and refuses the rules.
    #[error("the files can't be limited")]
    Files(#[source] ::landlock::RulesetError),
    /// The filter can't be made or installed.
    #[error("the system calls can't be limited")]
    Calls(#[source] seccompiler::Error),
}

impl From<ConfineError> for Problem {
    fn from(error: ConfineError) -> Self {
        Self::new(
            Code::SandboxUnavailable,
            "A role can't give up its rights, so it doesn't start",
        )
        .detail(crate::report::chain(&error))
        .hint("the kernel needs seccomp filters (CONFIG_SECCOMP_FILTER)")
    }
}

/// Gives up whatever `plan` doesn't keep, for good.
///
/// To be called on the main thread before any other is started: only this thread and those it
/// starts later are confined. Children are confined too; they can't mount, so a sandbox that needs
/// mounts must be started by a process that is not confined by Landlock.
///
/// # Errors
/// The kernel has no seccomp, or refuses the rules. A kernel without Landlock is no error but
/// stands in the report.
pub fn confine(plan: &Confinement) -> Result<Report, ConfineError> {
    seal()?;
    let missing = missing(plan);
    let landlock = restrict(plan).map_err(ConfineError::Files)?;
    let filter = filter(plan).map_err(|error| ConfineError::Calls(error.into()))?;
    filter_calls(&filter)?;
    let report = Report { landlock, missing };
    // A second time confines further; the first report stays the one that is told.
    let _ = IN_FORCE.set(report.clone());
    Ok(report)
}

/// No dump of memory, no rights gained by a program.
pub(super) fn seal() -> Result<(), ConfineError> {
    let process = |errno: rustix::io::Errno| ConfineError::Process(errno.into());
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    setrlimit(Resource::Core, none).map_err(process)?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(process)?;
    rustix::thread::set_no_new_privs(true).map_err(process)
}

/// Puts a filter of system calls in force.
pub(super) fn filter_calls(filter: &BpfProgram) -> Result<(), ConfineError> {
    seccompiler::apply_filter(filter).map_err(ConfineError::Calls)
}

static IN_FORCE: OnceLock<Report> = OnceLock::new();

/// What this process has given up, once it has.
pub fn in_force() -> Option<&'static Report> {
    IN_FORCE.get()
}
