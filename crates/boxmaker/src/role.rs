//! Being one of the roles.

use bxcore::code::Code;
use bxcore::problem::Problem;
use bxcore::role::Role;
use bxkit::{daemon, exit, report};
use std::ffi::OsStr;
use std::process::ExitCode;

/// Is the role with this name until it is told to end. Its keys come on standard input.
pub fn run(name: Option<&OsStr>) -> ExitCode {
    let name = name.unwrap_or_default().to_string_lossy();
    match name.parse() {
        Ok(Role::Loopd) => loopd::run(),
        Ok(Role::Brokerd) => brokerd::run(),
        Ok(Role::Inferproxy) => inferproxy::run(),
        Err(error) => {
            let problem = Problem::new(Code::BadRequest, error.to_string())
                .hint("roles are started by `boxmaker up`, not by hand");
            daemon::print_error(&report::render_problem(&problem, report::color_on_stderr()));
            ExitCode::from(exit::USAGE)
        }
    }
}
