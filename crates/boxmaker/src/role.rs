//! Being one of the roles.

use crate::supervisor::own_executable;
use brokerd::sandbox::{LAUNCHER_WORD, STAGE_WORD, run_launcher, run_stage};
use bxcore::code::Code;
use bxcore::problem::Problem;
use bxcore::role::Role;
use bxkit::{daemon, exit, report};
use std::ffi::OsStr;
use std::process::ExitCode;

/// Is the role with this name until it is told to end. Its keys come on standard input.
///
/// Two more processes are started this way, by brokerd: the launcher of sandboxes, and the first
/// process in each.
pub fn run(name: Option<&OsStr>) -> ExitCode {
    let name = name.unwrap_or_default().to_string_lossy();
    match &*name {
        LAUNCHER_WORD => return run_launcher(),
        STAGE_WORD => return run_stage(),
        _ => {}
    }
    match name.parse() {
        Ok(Role::Loopd) => loopd::run(),
        Ok(Role::Brokerd) => brokerd::run(own_executable()),
        Ok(Role::Inferproxy) => inferproxy::run(),
        Ok(Role::Memoryd) => memoryd::run(),
        Err(error) => {
            let problem = Problem::new(Code::BadRequest, error.to_string())
                .hint("roles are started by `boxmaker up`, not by hand");
            daemon::print_error(&report::render_problem(&problem, report::color_on_stderr()));
            ExitCode::from(exit::USAGE)
        }
    }
}
