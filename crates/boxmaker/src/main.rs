//! `boxmaker role NAME` is a role, started by the supervisor; everything else is the command line.

use boxmaker::{Executable, run_role};
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    if words.next().is_some_and(|word| word == "role") {
        return run_role(words.next().as_deref());
    }
    bxctl::run("boxmaker", std::env::args_os(), Some(&Executable))
}
