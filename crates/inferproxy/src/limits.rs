//! How long things may take. Named in one place; tests use shorter ones.

use std::time::Duration;

/// How long a call waits for a model to load.
pub const LOADING_WAIT_SECS: u64 = 900;
/// How often a loading server is asked whether it is done.
pub const LOADING_POLL_MS: u64 = 500;
/// The longest pause that a server may ask for before it counts as busy.
pub const RETRY_AFTER_MAX_SECS: u64 = 30;
/// How often a call is sent again after such a pause.
pub const MAX_PAUSES: u32 = 3;
/// How long a stop waits to see the slot idle before it answers `draining`.
pub const STOP_WAIT_MS: u64 = 2_000;
/// How often `/slots` is asked while a slot drains, at first.
pub const DRAIN_POLL_MS: u64 = 25;
/// The same, once [`STOP_WAIT_MS`] have passed.
pub const SLOW_DRAIN_POLL_MS: u64 = 250;
/// How long a slot is kept from others where the server never shows it idle.
pub const DRAIN_MAX_SECS: u64 = 3_600;
/// How long a slot is kept from others where the server does not show its slots.
pub const BLIND_DRAIN_MS: u64 = 2_000;
/// How often a waiting call says so again.
pub const WAITING_EVENT_SECS: u64 = 10;

/// The time limits of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How long a server may be silent.
    pub liveness: Duration,
    /// How long a call waits for a model to load.
    pub loading_wait: Duration,
    /// How often a loading server is asked.
    pub loading_poll: Duration,
    /// The longest pause that is kept.
    pub retry_after_max: Duration,
    /// How long a stop waits for an idle slot.
    pub stop_wait: Duration,
    /// How long a slot is kept from others at most.
    pub drain_max: Duration,
}

impl Limits {
    /// The limits of production, with the owner's liveness.
    pub fn with_liveness(liveness: Duration) -> Self {
        Self {
            liveness,
            loading_wait: Duration::from_secs(LOADING_WAIT_SECS),
            loading_poll: Duration::from_millis(LOADING_POLL_MS),
            retry_after_max: Duration::from_secs(RETRY_AFTER_MAX_SECS),
            stop_wait: Duration::from_millis(STOP_WAIT_MS),
            drain_max: Duration::from_secs(DRAIN_MAX_SECS),
        }
    }
}
