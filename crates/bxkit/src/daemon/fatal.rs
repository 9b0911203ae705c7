//! The end of a role that can't go on.

use crate::exit;
use crate::report::render_problem;
use bxcore::code::Code;
use bxcore::problem::Problem;
use std::fmt;
use std::sync::{Arc, OnceLock};
use tokio_util::sync::CancellationToken;

/// Why a role ends, and whether starting it again could help.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fatal {
    /// What is wrong.
    pub problem: Problem,
    /// The exit code: [`exit::CONFIG`] keeps the supervisor from starting it again.
    pub exit: u8,
}

impl Fatal {
    /// A fault whose title is all that is known.
    pub fn new(code: Code, title: impl Into<String>) -> Self {
        Problem::new(code, title).into()
    }

    /// The lines that a person sees, with the name of the page that tells more.
    pub fn render(&self, color: bool) -> String {
        render_problem(&self.problem, color)
    }
}

/// Everything that is a problem can end a role; the problem's code decides the exit code.
impl<E: Into<Problem>> From<E> for Fatal {
    fn from(error: E) -> Self {
        let problem = error.into();
        Self {
            exit: exit::of_role(problem.code),
            problem,
        }
    }
}

impl fmt::Display for Fatal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.problem.fmt(f)
    }
}

/// Ends the role from anywhere in it: the first cause counts.
///
/// For faults that no request must survive, like an audit log that can't be written.
#[derive(Debug, Clone)]
pub struct FatalSwitch {
    cause: Arc<OnceLock<Fatal>>,
    shutdown: CancellationToken,
}

impl FatalSwitch {
    /// A switch that cancels `shutdown`.
    pub fn new(shutdown: CancellationToken) -> Self {
        Self {
            cause: Arc::default(),
            shutdown,
        }
    }

    /// Begins the shutdown because of this.
    pub fn end(&self, fatal: impl Into<Fatal>) {
        let fatal = fatal.into();
        tracing::error!(code = %fatal.problem.code, "{fatal}");
        // A second cause is a consequence of the first, or comes too late to matter.
        let _ = self.cause.set(fatal);
        self.shutdown.cancel();
    }

    /// Why it was used, if it was.
    pub fn cause(&self) -> Option<&Fatal> {
        self.cause.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_decides_about_a_restart() {
        assert_eq!(Fatal::new(Code::AuditChainBroken, "x").exit, exit::CONFIG);
        assert_eq!(Fatal::new(Code::DiskFull, "x").exit, exit::FAILED);
    }

    #[test]
    fn the_first_cause_counts() {
        let shutdown = CancellationToken::new();
        let switch = FatalSwitch::new(shutdown.clone());
        assert!(switch.cause().is_none());
        switch.end(Problem::new(Code::AuditUnavailable, "first"));
        switch.clone().end(Problem::new(Code::Internal, "second"));
        assert!(shutdown.is_cancelled());
        assert_eq!(switch.cause().unwrap().problem.title, "first");
    }
}
