//! The disposable home itself: a short path, its folders, and the end of everything it started.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use tempfile::TempDir;

use super::child::Child;
use super::command::Cmd;
use super::config::{self, BackendConfig};
use super::procs;
use crate::llama::LlamaServer;
use rustix::process::Signal;

/// A `BOXMAKER_HOME` for one test.
///
/// Dropping it ends every process that was started under it, however it was detached, and removes
/// the folder; with `BXTEST_KEEP=1` in the environment the folder stays.
#[derive(Debug)]
pub struct TestHome {
    dir: Option<TempDir>,
    root: PathBuf,
    started: Mutex<Vec<u32>>,
}

impl TestHome {
    /// An empty home, as before the first run.
    pub fn new() -> Self {
        Self::under(Path::new("/tmp"))
    }

    /// An empty home in a folder of its own under `parent`.
    pub fn under(parent: &Path) -> Self {
        let dir = tempfile::Builder::new()
            .prefix("bx")
            .rand_bytes(6)
            .tempdir_in(parent);
        let dir = dir.unwrap_or_else(|error| panic!("a folder in {}: {error}", parent.display()));
        let root = dir.path().to_owned();
        Self {
            dir: Some(dir),
            root,
            started: Mutex::default(),
        }
    }

    /// A home whose only backend is the scripted server, with the wire dump on.
    pub fn with_server(server: &LlamaServer) -> Self {
        let home = Self::new();
        home.write_backends(&[BackendConfig::of_server(server)]);
        home
    }

    /// The home's root, the value of `BOXMAKER_HOME`.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// The folder of the configuration files.
    pub fn config_dir(&self) -> PathBuf {
        self.root.join("config")
    }

    /// The folder of all state.
    pub fn state_dir(&self) -> PathBuf {
        self.root.join("state")
    }

    /// The folder of the sockets.
    pub fn run_dir(&self) -> PathBuf {
        self.root.join("run")
    }

    /// Where inferproxy dumps the bodies that it sends.
    pub fn wire_dump(&self) -> PathBuf {
        self.state_dir().join("inferproxy/wire.jsonl")
    }

    /// A session's transcript.
    pub fn transcript(&self, session: &str) -> PathBuf {
        self.state_dir()
            .join("sessions")
            .join(session)
            .join("log.jsonl")
    }

    /// A role's socket.
    pub fn socket(&self, role: &str) -> PathBuf {
        self.run_dir().join(format!("{role}.sock"))
    }

    /// Writes a configuration file such as `brokerd.toml`.
    pub fn write_config(&self, file: &str, text: &str) {
        let path = self.config_dir().join(file);
        std::fs::create_dir_all(self.config_dir()).expect("the configuration folder");
        std::fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }

    /// Writes inferproxy.toml with these backends and the wire dump on.
    pub fn write_backends(&self, backends: &[BackendConfig]) {
        let text = config::inferproxy(&["wire_dump = true"], backends);
        self.write_config("inferproxy.toml", &text);
    }

    /// A command that runs one of the workspace's executables in this home.
    pub fn cmd(&self, bin: &str) -> Cmd<'_> {
        Cmd::new(self, &super::bins::bin(bin))
    }

    /// A command that runs any program in this home.
    pub fn program(&self, path: &Path) -> Cmd<'_> {
        Cmd::new(self, path)
    }

    /// Starts `boxmaker up` and waits until every role's socket is there.
    pub fn up(&self) -> Child<'_> {
        let child = self.cmd("boxmaker").arg("up").spawn();
        for role in ["inferproxy", "memoryd", "brokerd", "loopd"] {
            child.until(&format!("{role} listens"), || {
                procs::listener(&self.socket(role)).is_some()
            });
        }
        child
    }

    /// The process that listens on a role's socket.
    pub fn role_pid(&self, role: &str) -> Option<u32> {
        procs::listener(&self.socket(role))
    }

    /// Kills a role as the kernel would, and gives the process that is gone.
    ///
    /// # Panics
    /// When nobody listens on its socket.
    pub fn kill_role(&self, role: &str) -> u32 {
        let pid = self.running_role(role);
        procs::kill(pid);
        procs::wait_gone(pid);
        pid
    }

    /// Ends a role as a fault of its own would (SIGABRT), which dumps its memory where that is
    /// allowed; gives the process that is gone.
    ///
    /// # Panics
    /// When nobody listens on its socket.
    pub fn abort_role(&self, role: &str) -> u32 {
        let pid = self.running_role(role);
        procs::signal(pid, Signal::ABORT);
        procs::wait_gone(pid);
        pid
    }

    /// Stops a role in its tracks (SIGSTOP), so that it lives and does nothing; gives its process.
    ///
    /// # Panics
    /// When nobody listens on its socket.
    pub fn freeze_role(&self, role: &str) -> u32 {
        let pid = self.running_role(role);
        procs::signal(pid, Signal::STOP);
        pid
    }

    fn running_role(&self, role: &str) -> u32 {
        self.role_pid(role)
            .unwrap_or_else(|| panic!("nobody listens on {role}'s socket"))
    }

    /// Every process that belongs to this home now.
    pub fn processes(&self) -> Vec<u32> {
        procs::of_home(&self.root, &self.started.lock().unwrap())
    }

    pub(super) fn track(&self, pid: u32) {
        self.started.lock().unwrap().push(pid);
    }

    pub(super) fn untrack(&self, pid: u32) {
        self.started
            .lock()
            .unwrap()
            .retain(|started| *started != pid);
    }

    fn end_processes(&self) -> Result<(), Vec<u32>> {
        procs::end_all(&self.root, &self.started.lock().unwrap())
    }
}

impl Default for TestHome {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for TestHome {
    fn drop(&mut self) {
        let ended = self.end_processes();
        if std::env::var_os("BXTEST_KEEP").is_some()
            && let Some(dir) = self.dir.take()
        {
            let _ = dir.keep();
        }
        if let Err(left) = ended
            && !std::thread::panicking()
        {
            panic!("processes of {} did not end: {left:?}", self.root.display());
        }
    }
}
