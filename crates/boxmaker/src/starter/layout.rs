//! Where the starter engine lies on the disk, and whether what lies there is complete.
//!
//! ```text
//! starter/
//!   lock               held while one process installs
//!   staging-XXXXXX/    an installation being made; left behind by a kill, removed by the next one
//!   venv/              the installation, put there by one rename when it is complete
//!     installed.json   what it is: written last
//! ```

use super::error::StarterError;
use super::packages::{ENGINE_FOLDER, MODEL_FILE, PACKAGES};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// The version of the record's format.
const RECORD_VERSION: u32 = 1;

/// The record's name in an installation.
const RECORD_FILE: &str = "installed.json";

/// A record is a few hundred bytes; what is larger isn't one.
const MAX_RECORD_BYTES: u64 = 64 * 1024;

/// What every unfinished installation's name starts with.
pub(crate) const STAGING_PREFIX: &str = "staging-";

/// The starter engine's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    dir: PathBuf,
}

/// A complete installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installation {
    /// The Python that it was made with; may have gone since.
    pub python: PathBuf,
    /// The folder with the packages.
    pub packages: PathBuf,
    /// The weights.
    pub model: PathBuf,
}

/// What is written about an installation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    v: u32,
    /// Names and versions, in the order of [`PACKAGES`].
    packages: Vec<(String, String)>,
    /// The Python to run, below the installation or absolute.
    python: PathBuf,
    /// The folder with the packages, below the installation.
    folder: PathBuf,
}

impl Record {
    /// The record of an installation of the packages as they are pinned now.
    pub(crate) fn new(python: PathBuf, folder: PathBuf) -> Self {
        Self {
            v: RECORD_VERSION,
            packages: pinned(),
            python,
            folder,
        }
    }

    /// Whether it is of the packages as they are pinned now.
    fn is_current(&self) -> bool {
        self.v == RECORD_VERSION && self.packages == pinned()
    }
}

fn pinned() -> Vec<(String, String)> {
    PACKAGES
        .iter()
        .map(|package| (package.name.to_owned(), package.version.to_owned()))
        .collect()
}

impl Layout {
    /// The layout below `dir`, which is `starter/` in the state folder.
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    /// The folder that all of it is in.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The finished installation's folder.
    pub(crate) fn installed_dir(&self) -> PathBuf {
        self.dir.join("venv")
    }

    /// The file that is locked while one process installs.
    pub(crate) fn lock_file(&self) -> PathBuf {
        self.dir.join("lock")
    }

    /// The installation, if it is there, complete and of the pinned versions.
    pub fn installation(&self) -> Option<Installation> {
        let root = self.installed_dir();
        let file = root.join(RECORD_FILE);
        if fs::metadata(&file).ok()?.len() > MAX_RECORD_BYTES {
            return None;
        }
        let record: Record = serde_json::from_slice(&fs::read(&file).ok()?).ok()?;
        let found = resolve(&root, &record);
        let whole = found.model.is_file() && found.packages.join(ENGINE_FOLDER).is_dir();
        (record.is_current() && whole).then_some(found)
    }
}

/// What a record says, as paths.
pub(crate) fn resolve(root: &Path, record: &Record) -> Installation {
    let packages = root.join(&record.folder);
    Installation {
        python: root.join(&record.python),
        model: packages.join(MODEL_FILE),
        packages,
    }
}

/// Writes the record into `root`, which makes it complete.
pub(crate) fn write_record(root: &Path, record: &Record) -> Result<(), StarterError> {
    let file = root.join(RECORD_FILE);
    let text = serde_json::to_vec_pretty(record).map_err(std::io::Error::from);
    text.and_then(|text| fs::write(&file, text))
        .map_err(StarterError::io("writing", file))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn install(root: &Path, record: &Record) {
        let found = resolve(root, record);
        fs::create_dir_all(found.packages.join(ENGINE_FOLDER)).unwrap();
        fs::create_dir_all(found.model.parent().unwrap()).unwrap();
        fs::write(&found.model, "weights").unwrap();
        write_record(root, record).unwrap();
    }

    #[test]
    fn an_installation_is_found_when_it_is_whole_and_current() {
        let home = tempfile::tempdir().unwrap();
        let layout = Layout::at(home.path());
        assert_eq!(layout.installation(), None, "an empty folder");

        let record = Record::new("bin/python".into(), "lib/site-packages".into());
        install(&layout.installed_dir(), &record);
        let found = layout.installation().unwrap();
        assert_eq!(found.python, layout.installed_dir().join("bin/python"));

        fs::remove_file(&found.model).unwrap();
        assert_eq!(layout.installation(), None, "without its weights");
    }

    #[test]
    fn another_version_or_a_broken_record_is_no_installation() {
        let home = tempfile::tempdir().unwrap();
        let layout = Layout::at(home.path());
        let mut record = Record::new("/usr/bin/python3".into(), "packages".into());
        install(&layout.installed_dir(), &record);
        assert_eq!(
            layout.installation().unwrap().python,
            Path::new("/usr/bin/python3")
        );

        record.packages[0].1 = "0.0.1".to_owned();
        write_record(&layout.installed_dir(), &record).unwrap();
        assert_eq!(layout.installation(), None, "of another version");

        fs::write(layout.installed_dir().join(RECORD_FILE), "{\"v\":1,").unwrap();
        assert_eq!(layout.installation(), None, "with half a record");
    }
}
