//! Turns that begin by the clock: which there are, and when each is due. Pure; the time is passed in.
//!
//! What is known of each is its [`Stamp`]. It is decided from settings, stamp and time alone, so
//! that a start after a downtime, a clock that is set, and an hour that is left out or comes twice
//! are all the same question: is there a time between the stamp and now?

mod entry;
mod quiet;
mod stamp;
#[cfg(test)]
mod tests;

pub use entry::{Due, Entry, HEARTBEAT, JOB_PREFIX, priority_of};
pub use stamp::{Ended, Run, Stamp};

use crate::config::{Heartbeat, Job, MAX_JOBS};
use bxcore::id::SessionId;
use bxkit::config::InvalidValue;
use jiff::tz::TimeZone;
use std::collections::BTreeSet;

/// Everything that begins by the clock.
#[derive(Debug, Clone, Default)]
pub struct Schedule {
    entries: Vec<Entry>,
}

impl Schedule {
    /// Makes a schedule of what the configuration says. Time zones are read now: later there may be
    /// no right to.
    ///
    /// # Errors
    /// The key whose value can't be used.
    pub fn new(jobs: &[Job], heartbeat: Option<&Heartbeat>) -> Result<Self, InvalidValue> {
        if jobs.len() > MAX_JOBS {
            let why = format!("{} are there, of at most {MAX_JOBS}", jobs.len());
            return Err(InvalidValue::new("job", why));
        }
        let mut names = BTreeSet::new();
        let mut entries = Vec::new();
        for (index, job) in jobs.iter().enumerate() {
            let at = |(key, error): (&str, InvalidValue)| InvalidValue {
                key: format!("job.{index}.{key}"),
                ..error
            };
            entries.push(Entry::job(job).map_err(at)?);
            if !names.insert(&job.name) {
                let why = "another job has this name";
                return Err(at(("name", InvalidValue::new("", why))));
            }
        }
        if let Some(heartbeat) = heartbeat {
            let at = |(key, error): (&str, InvalidValue)| InvalidValue {
                key: format!("heartbeat.{key}"),
                ..error
            };
            entries.push(Entry::heartbeat(heartbeat).map_err(at)?);
        }
        Ok(Self { entries })
    }

    /// What there is, in the order of the file, the heartbeat last.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The entry of a session.
    pub fn entry(&self, session: &SessionId) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.session == *session)
    }
}

/// A time zone by its name; the machine's if none is given.
fn zone(name: Option<&str>) -> Result<TimeZone, InvalidValue> {
    let Some(name) = name else {
        return Ok(TimeZone::system());
    };
    TimeZone::get(name).map_err(|_| {
        let why = format!("there is no time zone `{name}`");
        InvalidValue::new("", why).hint("write it like \"Europe/Berlin\" or \"UTC\"")
    })
}
