//! Installs the starter engine: all of it appears by one rename, or nothing does.

use super::error::StarterError;
use super::layout::{self, Installation, Layout, Record, STAGING_PREFIX};
use super::lock::InstallLock;
use super::packages::{DISK_BYTES, download_bytes, requirements};
use super::pip::{self, PipEvent};
use super::python::{self, Python};
use super::space;
use super::tail::Tail;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// How long another process may take to install, in seconds.
const OTHER_INSTALL_SECS: u64 = 3600;

/// Old installations and left-behind halves that are removed in one go, at most.
const MAX_LEFTOVERS: usize = 64;

/// A step of the installation, for a progress bar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StarterProgress {
    /// Another process is installing; this one waits for it.
    Waiting,
    /// An environment is being made.
    Preparing,
    /// Packages are being downloaded.
    Downloading {
        /// What is there, in bytes.
        done_bytes: u64,
        /// What there will be, in bytes.
        total_bytes: u64,
    },
    /// Packages are being unpacked.
    Unpacking,
    /// What was installed is being tried.
    Checking,
}

/// Sets up the starter engine in a folder.
#[derive(Debug, Clone)]
pub struct Installer {
    layout: Layout,
    search_path: OsString,
    needed_bytes: u64,
}

impl Installer {
    /// An installer that finds Python on `search_path`, which is written as `PATH` is.
    pub fn new(layout: Layout, search_path: OsString) -> Self {
        Self {
            layout,
            search_path,
            needed_bytes: DISK_BYTES,
        }
    }

    /// Installs, if it isn't installed yet; `progress` is called from this thread.
    ///
    /// Blocks for as long as the download takes. What an interrupted one left behind is removed
    /// first, and one that runs in another process is waited for.
    ///
    /// # Errors
    /// As [`StarterError`] says; nothing half-done is left in use.
    pub fn install(
        &self,
        progress: &mut dyn FnMut(StarterProgress),
    ) -> Result<Installation, StarterError> {
        if let Some(there) = self.layout.installation() {
            return Ok(there);
        }
        let dir = self.layout.dir();
        fs::create_dir_all(dir).map_err(StarterError::io("creating", dir))?;
        let within = Duration::from_secs(OTHER_INSTALL_SECS);
        let _lock = InstallLock::take(&self.layout.lock_file(), within, || {
            progress(StarterProgress::Waiting);
        })?;
        if let Some(there) = self.layout.installation() {
            return Ok(there);
        }
        remove_leftovers(dir);
        progress(StarterProgress::Preparing);
        let python = python::find(&self.search_path)?;
        space::check(dir, self.needed_bytes)?;
        let staging = Staging::create(dir)?;
        let record = fill(&staging, &python, progress)?;
        progress(StarterProgress::Checking);
        check(&layout::resolve(&staging.root, &record))?;
        layout::write_record(&staging.root, &record)?;
        staging.publish(&self.layout)?;
        self.layout
            .installation()
            .ok_or_else(|| StarterError::NotInstalled {
                dir: dir.to_owned(),
            })
    }
}

/// A folder in which an installation is made. Removed when dropped, unless it was published.
struct Staging {
    root: PathBuf,
    temporary: PathBuf,
}

impl Staging {
    fn create(dir: &Path) -> Result<Self, StarterError> {
        let mut random = [0_u8; 8];
        getrandom::fill(&mut random).map_err(StarterError::Random)?;
        let root = dir.join(format!(
            "{STAGING_PREFIX}{:016x}",
            u64::from_le_bytes(random)
        ));
        let temporary = root.join("tmp");
        fs::create_dir_all(&temporary).map_err(StarterError::io("creating", &temporary))?;
        Ok(Self { root, temporary })
    }

    /// Puts the finished installation in its place, and what was there aside.
    fn publish(self, layout: &Layout) -> Result<(), StarterError> {
        let _ = fs::remove_dir_all(&self.temporary);
        flush(&self.root);
        let place = layout.installed_dir();
        if place.exists() {
            let aside = self.root.with_extension("old");
            fs::rename(&place, &aside).map_err(StarterError::io("moving aside", &place))?;
        }
        fs::rename(&self.root, &place).map_err(StarterError::io("moving into place", &place))?;
        flush(layout.dir());
        remove_leftovers(layout.dir());
        Ok(())
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // After publishing there is nothing left under this name.
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// Writes the files to the disk, so that a power cut can't leave a complete record of empty files.
fn flush(folder: &Path) {
    #[cfg(target_os = "linux")]
    if let Ok(opened) = fs::File::open(folder) {
        let _ = rustix::fs::syncfs(&opened);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = fs::File::open(folder).and_then(|opened| opened.sync_all());
}

/// Removes unfinished and replaced installations. Done under the lock, so nobody works in them.
fn remove_leftovers(dir: &Path) {
    let Ok(entries) = fs::read_dir(dir) else {
        return;
    };
    let is_leftover = |entry: &fs::DirEntry| {
        entry
            .file_name()
            .to_string_lossy()
            .starts_with(STAGING_PREFIX)
    };
    for entry in entries.flatten().filter(is_leftover).take(MAX_LEFTOVERS) {
        let _ = fs::remove_dir_all(entry.path());
    }
}

/// Where an installation's Python and packages are, and whose pip fills it.
struct Place {
    /// The Python that will run, below the installation or absolute.
    python: PathBuf,
    /// The folder of packages, below the installation.
    packages: PathBuf,
    /// The pip that installs there.
    pip: Command,
}

const VENV_PYTHON: &str = "bin/python";
const FOLDER: &str = "packages";

/// Makes an environment, or a folder where there can't be one, and installs the packages into it.
fn fill(
    staging: &Staging,
    python: &Python,
    progress: &mut dyn FnMut(StarterProgress),
) -> Result<Record, StarterError> {
    let list = staging.root.join("requirements.txt");
    fs::write(&list, requirements()).map_err(StarterError::io("writing", &list))?;
    let place = prepare(staging, python, &list)?;
    let total_bytes = download_bytes();
    progress(StarterProgress::Downloading {
        done_bytes: 0,
        total_bytes,
    });
    pip::run(place.pip, &staging.temporary, |event| {
        progress(match event {
            PipEvent::Downloaded(bytes) => StarterProgress::Downloading {
                done_bytes: bytes.min(total_bytes),
                total_bytes,
            },
            PipEvent::Unpacking => StarterProgress::Unpacking,
        });
    })?;
    Ok(Record::new(place.python, place.packages))
}

/// Makes the place. The system's pip is preferred, because giving the environment one takes long.
fn prepare(staging: &Staging, python: &Python, list: &Path) -> Result<Place, StarterError> {
    let root = &staging.root;
    let install = |python: &Path| pip::install_command(python, list, &staging.temporary);
    if python.pip {
        let (interpreter, packages) = match make_venv(python, root, &["--without-pip"]) {
            Some(packages) => (VENV_PYTHON.into(), packages),
            // Some systems ship Python without it; a plain folder does as well.
            None => (python.executable.clone(), FOLDER.into()),
        };
        let mut pip = install(&python.executable);
        pip.arg("--target").arg(root.join(&packages));
        return Ok(Place {
            python: interpreter,
            packages,
            pip,
        });
    }
    if python.own_pip
        && let Some(packages) = make_venv(python, root, &[])
    {
        return Ok(Place {
            python: VENV_PYTHON.into(),
            packages,
            pip: install(&root.join(VENV_PYTHON)),
        });
    }
    Err(StarterError::NoPip {
        python: python.executable.clone(),
    })
}

/// Makes an environment in `root`; gives its folder of packages, or none where it can't be made.
fn make_venv(python: &Python, root: &Path, options: &[&str]) -> Option<PathBuf> {
    let mut command = Command::new(&python.executable);
    command.args(["-I", "-m", "venv"]).args(options).arg(root);
    run(&mut command).ok()?;
    let folders = fs::read_dir(root.join("lib")).ok()?.flatten();
    let mut candidates = folders.take(MAX_LEFTOVERS).map(|entry| {
        Path::new("lib")
            .join(entry.file_name())
            .join("site-packages")
    });
    candidates.find(|candidate| root.join(candidate).is_dir())
}

/// Loads the engine once, as it will be loaded: a build that this machine can't run shows here.
fn check(installation: &Installation) -> Result<(), StarterError> {
    const PROGRAM: &str =
        "import sys; sys.path.insert(0, sys.argv[1]); import xllamacpp; xllamacpp.CommonParams()";
    if !installation.model.is_file() {
        return Err(StarterError::NotInstalled {
            dir: installation.packages.clone(),
        });
    }
    let mut command = Command::new(&installation.python);
    command
        .args(["-I", "-c", PROGRAM])
        .arg(&installation.packages);
    run(&mut command).map_err(|tail| StarterError::Unusable { tail })
}

/// Runs a short command to its end; the error has what it said last.
fn run(command: &mut Command) -> Result<(), String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    let mut tail = Tail::default();
    String::from_utf8_lossy(&output.stderr)
        .lines()
        .for_each(|line| tail.push(line));
    Err(format!("{} ({})", tail.text(), output.status))
}
