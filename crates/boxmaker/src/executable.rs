//! What the full executable adds to the command line.

use crate::starter::{self, Installer, Layout, StarterError, StarterProgress};
use crate::supervisor::{start_background, up};
use bxcore::problem::Problem;
use bxcore::role::Role;
use bxctl::output::Output;
use bxctl::{Launcher, SetupStep, StarterFacts, UpOptions};
use bxkit::home::Home;
use std::path::Path;
use std::process::ExitCode;

/// The full executable: supervisor, starter engine, and the roles' own readers of configuration.
#[derive(Debug, Clone, Copy)]
pub struct Executable;

impl Launcher for Executable {
    fn up(&self, home: &Home, options: &UpOptions, output: &Output) -> ExitCode {
        up(home, options, output)
    }

    fn start_background(&self, home: &Home) -> Result<(), Problem> {
        start_background(home)
    }

    fn starter(&self, home: &Home) -> StarterFacts {
        StarterFacts {
            installed: Layout::at(home.starter_dir()).installation().is_some(),
            download_bytes: starter::download_bytes(),
            description: starter::description(),
        }
    }

    fn install_starter(
        &self,
        home: &Home,
        progress: &mut dyn FnMut(SetupStep),
    ) -> Result<(), Problem> {
        let search_path = std::env::var_os("PATH").unwrap_or_default();
        let installer = Installer::new(Layout::at(home.starter_dir()), search_path);
        let installed = installer.install(&mut |step| progress(shown(step)));
        installed.map(drop).map_err(|error| told(home, &error))
    }

    fn copy_ledger(&self, home: &Home, folder: &Path) -> Result<u64, Problem> {
        Ok(brokerd::ledger::copy(&home.broker_db(), folder)?)
    }

    fn check_outside(&self, home: &Home) -> Vec<(String, Result<String, Problem>)> {
        let checked = brokerd::check::check(home).into_iter();
        checked.map(|one| (one.what, one.found)).collect()
    }

    fn check_config(&self, home: &Home, role: Role, file: &Path) -> Result<(), Problem> {
        match role {
            Role::Loopd => loopd::config::Config::load(file).map(drop)?,
            Role::Brokerd => {
                let tools = brokerd::tools::Registry::new().map_err(|error| {
                    Problem::new(bxcore::code::Code::Internal, "A tool of brokerd's is wrong")
                        .detail(error.to_string())
                })?;
                brokerd::config::load(home, file, &tools.specs()).map(drop)?;
            }
            Role::Memoryd => memoryd::config::Config::load(file).map(drop)?,
            Role::Inferproxy => {
                let check = inferproxy::config::check;
                bxkit::config::load_checked::<inferproxy::config::Settings>(file, check)
                    .map(drop)?;
            }
        }
        Ok(())
    }
}

/// The failure of an installation; all that pip said goes into a file, for whoever wants it.
fn told(home: &Home, error: &StarterError) -> Problem {
    let mut problem = error.problem();
    let log = home.logs_dir().join("starter-setup.log");
    if let StarterError::Pip { tail, .. } = error
        && bxkit::fsx::write_atomic(&log, tail.as_bytes(), 0o600).is_ok()
    {
        let words = format!("what pip said is in {}", log.display());
        problem.detail = problem.detail.map(|detail| format!("{detail}\n{words}"));
    }
    problem
}

/// A step of the installation in words.
fn shown(step: StarterProgress) -> SetupStep {
    let doing = |what: &str| SetupStep::Doing(what.to_owned());
    match step {
        StarterProgress::Waiting => {
            doing("Another process sets up the starter engine; waiting for it …")
        }
        StarterProgress::Preparing => doing("Preparing a folder for Python packages …"),
        StarterProgress::Downloading {
            done_bytes,
            total_bytes,
        } => SetupStep::Downloaded {
            done: done_bytes,
            total: total_bytes,
        },
        StarterProgress::Unpacking => doing("Unpacking …"),
        StarterProgress::Checking => doing("Trying what was installed …"),
    }
}
