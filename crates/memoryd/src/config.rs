//! `memoryd.toml`: how much of memory every session begins with.

use crate::memory::DEFAULT_BASELINE_BYTES;
use bxkit::config::{ConfigError, InvalidValue};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The most that a session may begin with, in bytes.
const MAX_BASELINE_BYTES: usize = 64 * 1024;

/// The whole file. Every key has a default, so that no file is needed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// How much of the memory files every session begins with, in bytes.
    pub baseline_bytes: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            baseline_bytes: DEFAULT_BASELINE_BYTES,
        }
    }
}

impl Config {
    /// Reads the file; a missing one is the defaults.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        bxkit::config::load_checked(path, Self::check)
    }

    fn check(&self) -> Result<(), InvalidValue> {
        if self.baseline_bytes > MAX_BASELINE_BYTES {
            let why = format!("must be at most {MAX_BASELINE_BYTES} bytes");
            return Err(InvalidValue::new("baseline_bytes", why));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_read_and_checked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("memoryd.toml");
        let parse = |text: &str| {
            std::fs::write(&path, text).unwrap();
            Config::load(&path)
        };
        assert_eq!(parse("").unwrap(), Config::default());
        assert_eq!(parse("baseline_bytes = 0").unwrap().baseline_bytes, 0);
        let problem = parse("baseline_bytes = 65537").unwrap_err().problem();
        assert!(format!("{problem}").contains("baseline_bytes"), "{problem}");
    }
}
