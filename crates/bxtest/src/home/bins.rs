//! Finds the workspace's executables next to the test that runs.

use std::path::{Path, PathBuf};

/// The path of one of the workspace's executables, of the same profile as the running test.
///
/// # Panics
/// With the command to type when it is not built.
pub fn bin(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the path of the running test");
    let folder = profile_folder(&test);
    let path = folder.join(name);
    let package = match name {
        "boxmaker" | "bxctl" => "boxmaker",
        "bxtest-llama" => "bxtest",
        other => other,
    };
    assert!(
        path.is_file(),
        "{} is not built; type: cargo build -p {package} --bin {name}",
        path.display()
    );
    path
}

/// `target/<profile>`, from `target/<profile>/deps/test-…`.
fn profile_folder(test: &Path) -> &Path {
    let folder = test.parent().expect("an executable lies in a folder");
    match folder.file_name() {
        Some(name) if name == "deps" || name == "examples" => folder.parent().unwrap_or(folder),
        _ => folder,
    }
}
