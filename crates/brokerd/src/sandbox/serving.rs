//! A program under way that is talked with. Its end is the end of everything that it started.

use super::client::Ran;
use super::error::SandboxError;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

/// A program that runs in a sandbox. Dropping this kills it, with all that it started.
#[derive(Debug)]
pub struct Serving {
    /// What it is talked with through: its standard input and output.
    wire: Option<UnixStream>,
    /// The launcher, which kills when nobody is at this end any more.
    control: UnixStream,
}

impl Serving {
    pub(super) fn new(wire: UnixStream, control: UnixStream) -> Self {
        Self {
            wire: Some(wire),
            control,
        }
    }

    /// What it is talked with through; to be taken once.
    pub fn take_wire(&mut self) -> Option<UnixStream> {
        self.wire.take()
    }

    /// Kills what still runs, and tells how it ended and what it said beside its output. Nothing of
    /// it is left when this returns; blocks.
    ///
    /// # Errors
    /// It was never run, or the launcher is gone.
    pub fn end(self) -> Result<Ran, SandboxError> {
        let asked = self.control.shutdown(Shutdown::Write);
        let ran = asked.and_then(|()| Ran::receive(&self.control));
        let ran = ran.map_err(SandboxError::Launcher)?;
        match ran.ended {
            super::Ended::Unavailable(why) => Err(SandboxError::Unavailable(why)),
            _ => Ok(ran),
        }
    }
}
