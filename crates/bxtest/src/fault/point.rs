//! Named fault points in the product's executables, where a process kills itself.
//!
//! The executables have them when they are built with the feature `fault-points` of `bxkit`, which
//! this crate switches on for whatever is built together with tests.

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

/// The environment variable that says where to die.
const FAULT_VARIABLE: &str = "BOXMAKER_FAULT";
/// The environment variable that names the file which records every point passed.
const LOG_VARIABLE: &str = "BOXMAKER_FAULT_LOG";

/// One place to die at: the `nth` time that the point `name` is passed, counted from 1.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FaultPoint {
    /// The point's name, such as `loopd.after-answer`.
    pub name: String,
    /// Which pass of it.
    pub nth: usize,
}

impl FaultPoint {
    /// The first pass of a point.
    pub fn first(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            nth: 1,
        }
    }

    /// The variable and value that make an executable die here.
    pub fn env(&self) -> (&'static str, String) {
        (FAULT_VARIABLE, self.to_string())
    }

    /// The variable and value that make an executable record the points it passes.
    pub fn log_env(log: &Path) -> (&'static str, String) {
        (LOG_VARIABLE, log.display().to_string())
    }
}

impl fmt::Display for FaultPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name, self.nth)
    }
}

/// The points that a recorded run passed, in order, each with which pass of its process it was.
/// No file means none.
///
/// # Panics
/// When the file can't be read, or holds anything but lines of a name and a count.
pub fn hits(log: &Path) -> Vec<FaultPoint> {
    let text = match std::fs::read_to_string(log) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => panic!("fault log {}: {error}", log.display()),
    };
    let hit = |line: &str| {
        let (name, count) = line.split_once(' ')?;
        Some(FaultPoint {
            name: name.to_owned(),
            nth: count.parse().ok()?,
        })
    };
    let hit = |line| hit(line).unwrap_or_else(|| panic!("fault log: odd line `{line}`"));
    text.lines().map(hit).collect()
}

/// Every place to die at that a recorded run passed, each name up to `most_per_name` times.
///
/// # Panics
/// When the run passed none: the executable was built without fault points, and a sweep over
/// nothing would prove nothing.
pub fn sweep(log: &Path, most_per_name: usize) -> Vec<FaultPoint> {
    let points: BTreeSet<FaultPoint> = hits(log).into_iter().collect();
    assert!(
        !points.is_empty(),
        "no fault point was passed; build the executables together with the tests, \
         or with --features bxkit/fault-points"
    );
    points
        .into_iter()
        .filter(|point| point.nth <= most_per_name)
        .collect()
}
