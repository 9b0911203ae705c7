//! Processes for the tests: a role in the daemon shell, one that confines itself and tries what it
//! may, one that passes fault points.
#![expect(clippy::print_stdout, reason = "the tests read what the probe prints")]

mod acts;
mod role;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["role"] => role::run(),
        ["acts", folder, allowed_port, other_port] => acts::run(folder, allowed_port, other_port),
        ["fault"] => {
            bxkit::fault::init();
            bxkit::fault::point("probe.first");
            println!("past first");
            bxkit::fault::point("probe.second");
            bxkit::fault::point("probe.second");
            println!("past second");
            ExitCode::SUCCESS
        }
        _ => ExitCode::from(bxkit::exit::USAGE),
    }
}
