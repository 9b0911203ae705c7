//! What the supervisor starts.

use bxcore::role::Role;
use std::fmt;

/// One process of the house.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Part {
    /// A role.
    Role(Role),
    /// The starter engine.
    Starter,
}

impl Part {
    /// The order in which parts are stopped: whoever calls others goes before them.
    pub(crate) const STOP_ORDER: [Self; 5] = [
        Self::Role(Role::Loopd),
        Self::Role(Role::Brokerd),
        Self::Role(Role::Memoryd),
        Self::Role(Role::Inferproxy),
        Self::Starter,
    ];

    /// Its name in messages and logs.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Role(role) => role.name(),
            Self::Starter => "starter",
        }
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// With an exit code.
    Code(i32),
    /// By a signal.
    Signal(i32),
    /// It could not even be started.
    NotStarted,
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
            Self::NotStarted => f.write_str("could not be started"),
        }
    }
}
