//! A home with things worth stealing, and a sandbox beside it.

use crate::support::{TestHome, session};
use brokerd::sandbox::{Job, Launch, Ran, Sandbox};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

pub(super) const SECRET: &str = "the secret outside";
/// How long a command of a test may run.
pub(super) const TIMEOUT_SECS: u64 = 60;

pub(super) struct Place {
    pub(super) test: TestHome,
    pub(super) work: PathBuf,
    pub(super) sandbox: Sandbox,
}

impl Place {
    pub(super) fn new() -> Self {
        let test = TestHome::new();
        let work = test.workspace("s");
        let notes = test.beside("notes");
        std::fs::write(notes.join("n.txt"), "a note").unwrap();
        let sandbox = Sandbox::start(&launch(&test)).unwrap();
        Self {
            test,
            work,
            sandbox,
        }
    }

    pub(super) fn run(&self, command: &str) -> Ran {
        self.run_for(command, TIMEOUT_SECS)
    }

    pub(super) fn run_for(&self, command: &str, timeout_secs: u64) -> Ran {
        self.sandbox.run(&job(command, timeout_secs)).unwrap()
    }
}

pub(super) fn launch(test: &TestHome) -> Launch {
    Launch {
        program: env!("CARGO_BIN_EXE_brokerd-probe").into(),
        search_path: std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/bin")),
        sessions: test.home.state_dir().join("workspaces"),
        owner: BTreeMap::from([("notes".to_owned(), test.root.path().join("notes"))]),
        programs: BTreeMap::new(),
    }
}

pub(super) fn job(command: &str, timeout_secs: u64) -> Job {
    Job {
        session: session("s"),
        folders: vec!["notes".to_owned()],
        command: command.to_owned(),
        timeout_secs,
        keep_bytes: 8192,
    }
}

pub(super) fn text(ran: &Ran) -> String {
    String::from_utf8_lossy(&[ran.head.clone(), ran.tail.clone()].concat()).into_owned()
}
