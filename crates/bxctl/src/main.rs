//! The client without the roles.

use std::process::ExitCode;

fn main() -> ExitCode {
    bxctl::run("bxctl", std::env::args_os(), None)
}
