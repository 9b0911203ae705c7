//! The starter engine as one of the supervisor's processes.

use super::machine::Event;
use super::part::{Exit, Part};
use super::process::Running;
use crate::starter::{self, Layout, ServeOptions, StarterHandle};
use bxctl::output::Output;
use bxkit::home::Home;
use bxkit::keys::StarterAddress;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;

/// How long the engine may take to load its model, in seconds.
const READY_WITHIN_SECS: u64 = 120;

/// Where the engine listens, once it does; shared by its task and whoever needs the address.
#[derive(Debug, Clone, Default)]
pub(crate) struct SharedAddress(Arc<Mutex<Option<StarterAddress>>>);

impl SharedAddress {
    /// The address of the last engine that was ready.
    pub(crate) fn now(&self) -> Option<StarterAddress> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn set(&self, address: StarterAddress) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(address);
    }
}

/// Whether the engine is set up in this home.
pub(crate) fn is_installed(home: &Home) -> bool {
    layout(home).installation().is_some()
}

/// Where the engine is in a home.
pub(crate) fn layout(home: &Home) -> Layout {
    Layout::at(home.starter_dir())
}

/// Starts the engine. That it started is told when it is ready, with its address in `address`.
pub(crate) fn start(
    home: &Home,
    address: SharedAddress,
    output: Output,
    events: mpsc::Sender<Event>,
) -> Running {
    let layout = layout(home);
    let options = ServeOptions {
        log_file: home.logs_dir().join("starter.log"),
        ready_within: Duration::from_secs(READY_WITHIN_SECS),
    };
    let (running, mut wanted) = Running::pair();
    tokio::spawn(async move {
        let started = tokio::select! {
            started = starter::start(&layout, &options) => started,
            // Its process goes with the future.
            _ = wanted.recv() => return tell_end(&events, Exit::NotStarted).await,
        };
        let exit = match started {
            Ok(handle) => {
                address.set(handle.address().clone());
                let pid = handle.pid().unwrap_or_default();
                let part = Part::Starter;
                // The supervisor's loop is gone: then the engine goes, too, with its handle.
                let _ = events.send(Event::Started { part, pid }).await;
                let _ = events.send(Event::Ready { part, pid }).await;
                exit(live(handle, wanted).await)
            }
            Err(error) => {
                output.problem(&error.problem());
                Exit::NotStarted
            }
        };
        tell_end(&events, exit).await;
    });
    running
}

async fn live(
    mut handle: StarterHandle,
    mut wanted: mpsc::Receiver<rustix::process::Signal>,
) -> std::io::Result<ExitStatus> {
    tokio::select! {
        ended = handle.wait() => return ended.map(|end| end.status),
        _ = wanted.recv() => {}
    }
    handle.stop().await
}

fn exit(ended: std::io::Result<ExitStatus>) -> Exit {
    let Ok(status) = ended else {
        return Exit::NotStarted;
    };
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::NotStarted,
    }
}

async fn tell_end(events: &mpsc::Sender<Event>, exit: Exit) {
    let _ = events
        .send(Event::Ended {
            part: Part::Starter,
            exit,
        })
        .await;
}
