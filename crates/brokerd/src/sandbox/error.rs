//! Why a command could not be run in a sandbox.

use bxcore::code::Code;
use std::io;

/// Why a command could not be run in a sandbox. It was never run without one.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// No sandbox can be built here.
    #[error("a sandbox can't be built on this machine: {0}")]
    Unavailable(String),
    /// The launcher can't be started or does not answer.
    #[error("the process that builds sandboxes does not answer")]
    Launcher(#[source] io::Error),
}

impl SandboxError {
    /// The runbook code.
    pub fn code(&self) -> Code {
        Code::SandboxUnavailable
    }
}
