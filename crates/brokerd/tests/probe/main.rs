//! The processes that brokerd starts for a sandbox, for tests of it without the whole executable.

use brokerd::sandbox::{LAUNCHER_WORD, STAGE_WORD, run_launcher, run_stage};
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["role", LAUNCHER_WORD] => run_launcher(),
        ["role", STAGE_WORD] => run_stage(),
        _ => ExitCode::from(bxkit::exit::USAGE),
    }
}
