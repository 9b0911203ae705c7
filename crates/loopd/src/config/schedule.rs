//! `[[job]]` and `[heartbeat]`: turns that begin by the clock.

use bxcore::id::BackendName;
use bxcore::label::Class;
use serde::{Deserialize, Serialize};

/// The most jobs.
pub const MAX_JOBS: usize = 64;
/// The longest text of a job or a heartbeat, in bytes.
pub const MAX_JOB_TEXT_BYTES: usize = 16 * 1024;

/// A turn that begins whenever its cron line says so, in the session `job-<name>`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Its name, and that of its session behind `job-`: a-z, 0-9 and `-`.
    pub name: String,
    /// When: minute, hour, day of month, month, day of week, as cron writes them.
    pub cron: String,
    /// What it begins with.
    pub text: String,
    /// Whose clock is meant, by the name of the time zone; the machine's if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// The class of the text; private if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<Class>,
    /// The backend; the session's own, or the first that is ready, if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<BackendName>,
}

/// A turn that begins again and again, in the session `heartbeat`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Heartbeat {
    /// How long after the end of one the next begins, in minutes.
    pub every_minutes: u32,
    /// What it begins with.
    pub text: String,
    /// The hours of the day in which none begins, `"22:00-07:00"`; every hour is fine if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quiet: Option<String>,
    /// Whose clock is meant, by the name of the time zone; the machine's if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// The class of the text; private if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<Class>,
    /// The backend; the session's own, or the first that is ready, if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<BackendName>,
}
