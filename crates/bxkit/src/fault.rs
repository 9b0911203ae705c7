//! Named points at which a test may kill the process.
//!
//! Without the feature `fault-points` nothing of this is in the executable. With it,
//! `BOXMAKER_FAULT="name[:nth],…"` names the points: at the nth hit (the first, if none is given)
//! the process kills itself with SIGKILL, as a power cut would. Every hit is appended to the file
//! that `BOXMAKER_FAULT_LOG` names, one `name count` a line.

#[cfg(feature = "fault-points")]
mod armed;
#[cfg(feature = "fault-points")]
mod plan;

#[cfg(feature = "fault-points")]
pub use armed::{init, point};

/// Passes a named point; does nothing.
#[cfg(not(feature = "fault-points"))]
#[inline]
pub const fn point(_name: &'static str) {}

/// Reads the plan and opens the log; does nothing.
#[cfg(not(feature = "fault-points"))]
#[inline]
pub const fn init() {}
