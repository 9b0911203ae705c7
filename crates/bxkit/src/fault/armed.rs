//! The points as they are in a build for tests.

use super::plan::Plan;
use rustix::process::{Signal, getpid, kill_process};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::{Mutex, OnceLock, PoisonError};

struct Armed {
    plan: Mutex<Plan>,
    log: Option<File>,
}

static ARMED: OnceLock<Armed> = OnceLock::new();

fn armed() -> &'static Armed {
    ARMED.get_or_init(|| {
        let text = std::env::var("BOXMAKER_FAULT").unwrap_or_default();
        let log = std::env::var_os("BOXMAKER_FAULT_LOG")
            .and_then(|path| OpenOptions::new().create(true).append(true).open(path).ok());
        Armed {
            plan: Mutex::new(Plan::parse(&text)),
            log,
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
        let _ = kill_process(getpid(), Signal::KILL);
    }
}
