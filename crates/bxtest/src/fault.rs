//! Ways to break things on purpose: fault points, failing system calls, full disks.

mod disk;
mod point;
mod strace;

pub use disk::SmallDisk;
pub use point::{FaultPoint, hits, sweep};
pub use strace::{Inject, Strace};
