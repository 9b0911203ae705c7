//! The folders and files of a home.

use super::error::HomeError;
use super::folder;
use super::place::{Place, Surroundings};
use bxcore::role::Role;
use std::path::{Path, PathBuf};

/// The longest socket path that is used, in bytes.
///
/// The kernel takes 107; some of them are left for tools that add to a path.
pub const MAX_SOCKET_PATH_BYTES: usize = 99;

/// The longest file name of a socket, with its slash.
const LONGEST_SOCKET_NAME: &str = "/inferproxy.sock";

/// Where everything of one Boxmaker is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    place: Place,
    run: PathBuf,
}

impl Home {
    /// The home that the environment names: `BOXMAKER_HOME`, else the XDG folders.
    ///
    /// Makes nothing; see [`Home::create`].
    pub fn discover() -> Result<Self, HomeError> {
        let current = std::env::current_dir().map_err(HomeError::CurrentFolder)?;
        Ok(Self::settle(Surroundings::of_process().place(&current)?))
    }

    /// The home below one folder, as if `BOXMAKER_HOME` named it.
    pub fn at(root: &Path) -> Self {
        Self::settle(Surroundings::of_process().rooted(root))
    }

    /// Decides between the run folder that is wanted and the short one.
    fn settle(place: Place) -> Self {
        let run = if place.run.starts_with(root_of(&place)) && fits(&place.run) {
            // Below the home nobody else can have been; no record is needed.
            place.run.clone()
        } else if let Some(recorded) = folder::recorded(&place.state) {
            recorded
        } else if fits(&place.run) {
            place.run.clone()
        } else {
            folder::short_run(&place)
        };
        Self { place, run }
    }

    /// Makes the folders, mode 0700.
    ///
    /// A run folder that is not below the home is recorded in the state folder, so that processes
    /// with another environment find it too.
    ///
    /// # Errors
    /// A folder can't be made, or one that is there belongs to somebody else.
    pub fn create(&self) -> Result<(), HomeError> {
        for folder in [
            self.config_dir().to_owned(),
            self.state_dir().to_owned(),
            self.sessions_dir(),
            self.audit_dir(),
            self.secrets_dir(),
            self.logs_dir(),
            self.memory_dir(),
            self.memoryd_dir(),
        ] {
            folder::make_private(&folder)?;
        }
        for folder in [self.config_dir().parent(), self.state_dir().parent()] {
            folder.map_or(Ok(()), folder::refuse_open)?;
        }
        if let Some(parent) = self.run.parent().filter(|parent| !parent.exists()) {
            folder::make_private(parent)?;
        }
        folder::make_run(&self.run)?;
        if !self.run.starts_with(root_of(&self.place)) {
            folder::record(&self.place.state, &self.run)?;
        }
        Ok(())
    }

    /// Takes away an empty run folder that is not below the home: nobody would ever look for it
    /// there. One below the home stays.
    pub fn remove_short_run_folder(&self) {
        let short = self.place.short_run.as_os_str().as_encoded_bytes();
        if self.run.as_os_str().as_encoded_bytes().starts_with(short) {
            // What is still in it, or not ours, is a reason to leave it.
            let _ = std::fs::remove_dir(&self.run);
        }
    }

    /// The folder of configuration files.
    pub fn config_dir(&self) -> &Path {
        &self.place.config
    }

    /// The folder of everything that must outlive a restart.
    pub fn state_dir(&self) -> &Path {
        &self.place.state
    }

    /// The file that is locked by whoever supervises the home, with a record of who that is.
    pub fn supervisor_lock_file(&self) -> PathBuf {
        self.place.state.join("supervisor.lock")
    }

    /// The folder of sockets; its path is short enough for them.
    pub fn run_dir(&self) -> &Path {
        &self.run
    }

    /// A role's configuration file.
    pub fn config_file(&self, role: Role) -> PathBuf {
        self.place.config.join(format!("{role}.toml"))
    }

    /// A role's socket.
    pub fn socket(&self, role: Role) -> PathBuf {
        self.run.join(format!("{role}.sock"))
    }

    /// The supervisor's socket.
    pub fn supervisor_socket(&self) -> PathBuf {
        self.run.join("supervisor.sock")
    }

    /// The owner's token: written by the supervisor, read by the CLI, out of the roles' reach.
    pub fn owner_token_file(&self) -> PathBuf {
        self.run.join("owner.token")
    }

    /// The transcripts, one folder a session.
    pub fn sessions_dir(&self) -> PathBuf {
        self.place.state.join("sessions")
    }

    /// The sessions' own folders, which tools see.
    pub fn workspaces_dir(&self) -> PathBuf {
        self.place.state.join("workspaces")
    }

    /// The segments of the audit log.
    pub fn audit_dir(&self) -> PathBuf {
        self.place.state.join("audit")
    }

    /// The database of loopd.
    pub fn loopd_db(&self) -> PathBuf {
        self.place.state.join("boxmaker.db")
    }

    /// The database of brokerd.
    pub fn broker_db(&self) -> PathBuf {
        self.place.state.join("brokerd.db")
    }

    /// The memory files, which the owner may edit.
    pub fn memory_dir(&self) -> PathBuf {
        self.place.state.join("memory")
    }

    /// The folder of memoryd's index, which may be deleted at any time.
    pub fn memoryd_dir(&self) -> PathBuf {
        self.place.state.join("memoryd")
    }

    /// The secrets, one file each.
    pub fn secrets_dir(&self) -> PathBuf {
        self.place.state.join("secrets")
    }

    /// The starter engine and its model, where used.
    pub fn starter_dir(&self) -> PathBuf {
        self.place.state.join("starter")
    }

    /// What background processes print.
    pub fn logs_dir(&self) -> PathBuf {
        self.place.state.join("logs")
    }
}

/// The folder that holds both state and run folder, where there is one.
fn root_of(place: &Place) -> &Path {
    place.state.parent().unwrap_or(&place.state)
}

fn fits(run: &Path) -> bool {
    run.as_os_str().len() + LONGEST_SOCKET_NAME.len() <= MAX_SOCKET_PATH_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn every_file_has_its_place() {
        let home = Home::at(Path::new("/h"));
        assert_eq!(
            home.config_file(Role::Loopd),
            Path::new("/h/config/loopd.toml")
        );
        assert_eq!(home.socket(Role::Brokerd), Path::new("/h/run/brokerd.sock"));
        assert_eq!(
            home.supervisor_socket(),
            Path::new("/h/run/supervisor.sock")
        );
        assert_eq!(home.owner_token_file(), Path::new("/h/run/owner.token"));
        assert_eq!(home.loopd_db(), Path::new("/h/state/boxmaker.db"));
        assert_eq!(home.broker_db(), Path::new("/h/state/brokerd.db"));
    }

    #[test]
    fn creating_makes_private_folders_and_tightens_open_ones() {
        let root = tempfile::tempdir().unwrap();
        let home = Home::at(&root.path().join("deep/er"));
        std::fs::create_dir_all(home.state_dir()).unwrap();
        std::fs::set_permissions(home.state_dir(), std::fs::Permissions::from_mode(0o755)).unwrap();
        home.create().unwrap();
        for folder in [
            home.config_dir(),
            home.state_dir(),
            home.run_dir(),
            &home.secrets_dir(),
        ] {
            assert_eq!(mode(folder), 0o700, "{}", folder.display());
        }
        home.create().unwrap();
        assert!(!home.state_dir().join("run-folder").exists());
    }

    #[test]
    fn a_home_in_which_everybody_may_write_is_refused() {
        let check = |mode: u32, expect: bool| {
            let root = tempfile::tempdir().unwrap();
            let open = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(root.path(), open).unwrap();
            let made = Home::at(root.path()).create();
            assert_eq!(made.is_ok(), expect, "{mode:o}: {made:?}");
        };
        check(0o700, true);
        check(0o755, true);
        check(0o777, false);
        check(0o702, false);
        // As /tmp is: others can't take away or rename what is ours.
        check(0o1777, true);
    }

    #[test]
    fn a_long_home_gets_a_short_run_folder_that_is_found_again() {
        let root = tempfile::tempdir().unwrap();
        let long = root.path().join("x".repeat(120));
        let home = Home::at(&long);
        home.create().unwrap();
        assert!(home.socket(Role::Inferproxy).as_os_str().len() <= MAX_SOCKET_PATH_BYTES);
        assert_eq!(mode(home.run_dir()), 0o700);
        assert_eq!(Home::at(&long), home);
        let kept = home.run_dir().join("x");
        std::fs::write(&kept, "").unwrap();
        home.remove_short_run_folder();
        assert!(kept.exists());
        std::fs::remove_file(kept).unwrap();
        home.remove_short_run_folder();
        assert!(!home.run_dir().exists());
        assert_eq!(Home::at(&long), home, "it is made in the same place again");
    }

    #[test]
    fn a_planted_run_folder_is_not_used() {
        let root = tempfile::tempdir().unwrap();
        let long = root.path().join("y".repeat(120));
        let first = Home::at(&long);
        let elsewhere = root.path().join("elsewhere");
        std::fs::create_dir(&elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, first.run_dir()).unwrap();

        let home = Home::at(&long);
        home.create().unwrap();
        assert_ne!(
            home.run_dir(),
            first.run_dir(),
            "the link must not be followed"
        );
        assert_eq!(
            Home::at(&long).run_dir(),
            home.run_dir(),
            "the record is used"
        );

        // A record whose folder turned into something else is not trusted any more.
        std::fs::remove_dir(home.run_dir()).unwrap();
        std::os::unix::fs::symlink(&elsewhere, home.run_dir()).unwrap();
        let third = Home::at(&long);
        assert_ne!(third.run_dir(), home.run_dir());
        assert_ne!(third.run_dir(), first.run_dir());
        std::fs::remove_file(home.run_dir()).unwrap();
        std::fs::remove_file(first.run_dir()).unwrap();
    }

    #[test]
    fn a_record_with_rubbish_is_ignored() {
        let root = tempfile::tempdir().unwrap();
        let long = root.path().join("z".repeat(120));
        let home = Home::at(&long);
        folder::make_private(home.state_dir()).unwrap();
        for rubbish in [
            &b"relative\n"[..],
            b"\xff\xfe",
            b"/does/not/exist\n",
            &[b'/'; 300],
        ] {
            crate::fsx::write_atomic(&home.state_dir().join("run-folder"), rubbish, 0o600).unwrap();
            assert_eq!(Home::at(&long), home);
        }
    }
}
