//! What the `boxmaker` executable can do and a mere client can't.

use crate::output::Output;
use bxcore::problem::Problem;
use bxcore::role::Role;
use bxkit::home::Home;
use std::path::Path;
use std::process::ExitCode;

/// How to run the supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpOptions {
    /// Whether it leaves when nothing happened for a while.
    pub background: bool,
    /// After how many seconds of nothing it leaves, in the background.
    pub idle_seconds: u64,
    /// Whether the roles' own words are shown.
    pub verbose: bool,
}

/// What the starter engine is and whether it is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StarterFacts {
    /// Whether it can be started as it is.
    pub installed: bool,
    /// What would be downloaded, in bytes.
    pub download_bytes: u64,
    /// What it is, for a person who is asked for consent: a line or two.
    pub description: String,
}

/// One step of setting up the starter engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SetupStep {
    /// Something begins.
    Doing(String),
    /// Part of a download is there.
    Downloaded {
        /// How much, in bytes.
        done: u64,
        /// Of how much, in bytes.
        total: u64,
    },
}

/// What the `boxmaker` executable can do and a mere client can't.
pub trait Launcher {
    /// Is the supervisor, until it is stopped.
    fn up(&self, home: &Home, options: &UpOptions, output: &Output) -> ExitCode;

    /// Starts a supervisor in the background and waits until it serves.
    ///
    /// # Errors
    /// It ended before that, or took too long. One that is there already is no error.
    fn start_background(&self, home: &Home) -> Result<(), Problem>;

    /// What the starter engine is and whether it is there.
    fn starter(&self, home: &Home) -> StarterFacts;

    /// Sets up the starter engine.
    fn install_starter(
        &self,
        home: &Home,
        progress: &mut dyn FnMut(SetupStep),
    ) -> Result<(), Problem>;

    /// Copies brokerd's database into a folder as of one moment, whatever brokerd does meanwhile.
    ///
    /// Gives the size of the copy in bytes.
    fn copy_ledger(&self, home: &Home, folder: &Path) -> Result<u64, Problem>;

    /// Looks at what brokerd would send with: its secrets, and each service that is configured.
    /// Sends nothing.
    fn check_outside(&self, home: &Home) -> Vec<(String, Result<String, Problem>)>;

    /// Reads a file as the role would read its configuration.
    fn check_config(&self, home: &Home, role: Role, file: &Path) -> Result<(), Problem>;
}
