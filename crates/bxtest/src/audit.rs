//! The second reader of the audit log: a program that was written from the format's description
//! alone and must agree with ours on every log. It lies beside the project, not in it.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The reader, below the folder that lies beside the project.
const CHECKER: &str = "check/audit_verify.py";

/// What the second reader says of the log in a folder: `Ok` where the log holds.
///
/// None where the reader is not at hand, as in a user's clone.
///
/// # Panics
/// When the reader is at hand and Python is not.
pub fn second_reader(folder: &Path) -> Option<Result<String, String>> {
    let script = checker()?;
    let output = Command::new("python3")
        .arg(script)
        .arg(folder)
        .output()
        .unwrap_or_else(|error| panic!("python3: {error}"));
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Some(if output.status.success() {
        Ok(said)
    } else {
        Err(said)
    })
}

#[expect(
    clippy::print_stderr,
    reason = "a test that checks less than it could says so"
)]
fn checker() -> Option<PathBuf> {
    let beside_project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let shared = std::env::var_os("BOXMAKER_SHARED").map_or(beside_project, PathBuf::from);
    let script = shared.join(CHECKER);
    if script.exists() {
        return Some(script);
    }
    eprintln!(
        "{} is not there: only our own reader checks",
        script.display()
    );
    None
}
