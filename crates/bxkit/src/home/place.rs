//! The decision where a home is, from the environment. Pure: reads nothing.

use super::error::HomeError;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// What of the environment decides where a home is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// `BOXMAKER_HOME`.
    pub boxmaker_home: Option<PathBuf>,
    /// `HOME`.
    pub home: Option<PathBuf>,
    /// `XDG_CONFIG_HOME`.
    pub xdg_config: Option<PathBuf>,
    /// `XDG_DATA_HOME`.
    pub xdg_data: Option<PathBuf>,
    /// `XDG_RUNTIME_DIR`.
    pub xdg_runtime: Option<PathBuf>,
    /// Our user id.
    pub uid: u32,
}

/// The folders of a home, before the run folder has been looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) config: PathBuf,
    pub(super) state: PathBuf,
    /// Where sockets should be; used if short enough.
    pub(super) run: PathBuf,
    /// Where a private run folder is made if `run` is too long.
    pub(super) short_run: PathBuf,
}

impl Surroundings {
    /// The environment of this process.
    pub fn of_process() -> Self {
        let path = |name| {
            std::env::var_os(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        Self {
            boxmaker_home: path("BOXMAKER_HOME"),
            home: path("HOME"),
            xdg_config: path("XDG_CONFIG_HOME"),
            xdg_data: path("XDG_DATA_HOME"),
            xdg_runtime: path("XDG_RUNTIME_DIR"),
            uid: rustix::process::geteuid().as_raw(),
        }
    }

    /// Decides the folders; `current` makes a relative `BOXMAKER_HOME` absolute.
    pub(super) fn place(&self, current: &Path) -> Result<Place, HomeError> {
        match &self.boxmaker_home {
            Some(root) => Ok(self.rooted(&current.join(root))),
            None => self.by_xdg(),
        }
    }

    /// All folders below one root.
    pub(super) fn rooted(&self, root: &Path) -> Place {
        Place {
            config: root.join("config"),
            state: root.join("state"),
            run: root.join("run"),
            short_run: self.short_run(root),
        }
    }

    fn by_xdg(&self) -> Result<Place, HomeError> {
        // The XDG specification has relative paths ignored.
        let absolute = |path: &Option<PathBuf>| path.clone().filter(|path| path.is_absolute());
        let home = absolute(&self.home);
        let below_home = |folder| home.as_ref().map(|home| home.join(folder));
        let config = absolute(&self.xdg_config).or_else(|| below_home(".config"));
        let data = absolute(&self.xdg_data).or_else(|| below_home(".local/share"));
        let (Some(config), Some(data)) = (config, data) else {
            return Err(HomeError::Unknown);
        };
        let state = data.join("boxmaker");
        let run = match absolute(&self.xdg_runtime) {
            Some(runtime) => runtime.join("boxmaker"),
            None => PathBuf::from(format!("/tmp/boxmaker-{}", self.uid)),
        };
        let short_run = self.short_run(&state);
        Ok(Place {
            config: config.join("boxmaker"),
            state,
            run,
            short_run,
        })
    }

    /// A short folder that is always the same for one home, so that two processes agree on it.
    fn short_run(&self, home: &Path) -> PathBuf {
        use std::os::unix::ffi::OsStrExt;
        let digest = Sha256::digest(home.as_os_str().as_bytes());
        let mark = digest
            .iter()
            .take(6)
            .fold(0_u64, |mark, byte| mark << 8 | u64::from(*byte));
        match self.xdg_runtime.as_ref().filter(|path| path.is_absolute()) {
            // Leaves room for the longest socket name below the limit.
            Some(runtime) if runtime.as_os_str().len() <= 48 => {
                runtime.join(format!("boxmaker-{mark:012x}"))
            }
            _ => PathBuf::from(format!("/tmp/boxmaker-{}-{mark:012x}", self.uid)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(change: impl FnOnce(&mut Surroundings), expect: Option<[&str; 3]>) {
        let mut surroundings = Surroundings {
            home: Some("/home/ann".into()),
            uid: 7,
            ..Surroundings::default()
        };
        change(&mut surroundings);
        let found = surroundings.place(Path::new("/srv")).ok();
        let found = found.map(|place| [place.config, place.state, place.run]);
        assert_eq!(found, expect.map(|expect| expect.map(PathBuf::from)));
    }

    #[test]
    fn the_environment_decides_the_folders() {
        check(
            |_| (),
            Some([
                "/home/ann/.config/boxmaker",
                "/home/ann/.local/share/boxmaker",
                "/tmp/boxmaker-7",
            ]),
        );
        check(
            |s| s.xdg_runtime = Some("/run/user/7".into()),
            Some([
                "/home/ann/.config/boxmaker",
                "/home/ann/.local/share/boxmaker",
                "/run/user/7/boxmaker",
            ]),
        );
        check(
            |s| {
                s.home = None;
                s.xdg_config = Some("/c".into());
                s.xdg_data = Some("/d".into());
            },
            Some(["/c/boxmaker", "/d/boxmaker", "/tmp/boxmaker-7"]),
        );
        check(
            |s| s.boxmaker_home = Some("/srv/bx".into()),
            Some(["/srv/bx/config", "/srv/bx/state", "/srv/bx/run"]),
        );
        check(
            |s| s.boxmaker_home = Some("bx".into()),
            Some(["/srv/bx/config", "/srv/bx/state", "/srv/bx/run"]),
        );
        check(|s| s.home = None, None);
        check(|s| s.home = Some("relative".into()), None);
    }

    #[test]
    fn the_short_run_folder_is_short_and_the_same_for_one_home() {
        let surroundings = Surroundings {
            uid: u32::MAX,
            ..Surroundings::default()
        };
        let long = PathBuf::from(format!("/{}", "x".repeat(200)));
        let first = surroundings.rooted(&long).short_run;
        assert_eq!(first, surroundings.rooted(&long).short_run);
        assert_ne!(first, surroundings.rooted(Path::new("/other")).short_run);
        assert!(first.as_os_str().len() < 48, "{}", first.display());
    }
}
