//! The points as they are in a build for tests.

use super::plan::Plan;
use rustix::process::{Signal, getpid, kill_process};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::{Mutex, OnceLock, PoisonError};

struct Armed {
    plan: Mutex<Plan>,
    log: Option<File>,
    /// The kills that happened, so that a process which is started again is not killed again.
    fired: Option<File>,
}

static ARMED: OnceLock<Armed> = OnceLock::new();

fn armed() -> &'static Armed {
    ARMED.get_or_init(|| {
        let text = std::env::var("BOXMAKER_FAULT").unwrap_or_default();
        let path = std::env::var_os("BOXMAKER_FAULT_LOG");
        let beside = path.as_ref().map(|path| {
            let mut name = path.clone();
            name.push(".fired");
            name
        });
        let open = |path| OpenOptions::new().create(true).append(true).open(path).ok();
        let fired = beside
            .as_ref()
            .and_then(|path| std::fs::read_to_string(path).ok());
        Armed {
            plan: Mutex::new(Plan::parse(&text).without(&fired.unwrap_or_default())),
            log: path.and_then(open),
            fired: beside.and_then(open),
        }
    })
}

/// Reads the plan and opens the log, before the process gives up the right to.
pub fn init() {
    armed();
}

/// Passes a named point, which may be the last thing that this process does.
pub fn point(name: &'static str) {
    let armed = armed();
    let hit = armed
        .plan
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .hit(name);
    if let Some(mut log) = armed.log.as_ref() {
        // One write, so that lines of several processes don't mix. A test that needs it will miss it.
        let _ = log.write_all(format!("{name} {}\n", hit.count).as_bytes());
    }
    if hit.kills {
        if let Some(mut fired) = armed.fired.as_ref() {
            let _ = fired.write_all(format!("{name}:{}\n", hit.count).as_bytes());
        }
        let _ = kill_process(getpid(), Signal::KILL);
    }
}
