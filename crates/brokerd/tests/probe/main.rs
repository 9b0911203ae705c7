//! Parts of brokerd as processes of their own, for tests without the whole executable: those that
//! it starts for a sandbox, a fetch, and a server of tools.

mod mcp;

use brokerd::egress::Roots;
use brokerd::fetch::Fetcher;
use brokerd::sandbox::{LAUNCHER_WORD, STAGE_WORD, run_launcher, run_stage};
use std::process::ExitCode;

/// Fetches a page as the tool does, under a grant that names no host, and prints what came of it.
fn fetch(url: &str) -> ExitCode {
    let grant = serde_json::json!({"tool": "http_fetch"});
    let (Ok(grant), Ok(runtime)) = (
        serde_json::from_value(grant),
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build(),
    ) else {
        return ExitCode::from(bxkit::exit::FAILED);
    };
    let output = runtime.block_on(Fetcher::new(Roots::of_system().ok()).fetch(url, &grant));
    let failure = output.failure.map_or("fetched", bxcore::code::Code::as_str);
    let printed = std::io::Write::write_all(
        &mut std::io::stdout(),
        format!("{failure}: {}\n", output.text).as_bytes(),
    );
    if printed.is_ok() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(bxkit::exit::FAILED)
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["role", LAUNCHER_WORD] => run_launcher(),
        ["role", STAGE_WORD] => run_stage(),
        ["fetch", url] => fetch(url),
        ["mcp", plan] => mcp::serve(plan).unwrap_or(ExitCode::from(bxkit::exit::FAILED)),
        _ => ExitCode::from(bxkit::exit::USAGE),
    }
}
