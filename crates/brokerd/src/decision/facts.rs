//! What the walk needs to know of the world, beyond the call itself.

use bxcore::code::Code;

/// The facts of one call, gathered before the walk.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Facts {
    /// What the tool can't work without and does not have here.
    pub lacks: Option<Code>,
    /// The host that would be reached, if the call reaches one and it is known.
    pub destination: Option<String>,
    /// Whether a stored secret is part of what would be sent.
    pub secrets: SecretsFound,
    /// The money that is set aside for it.
    pub reservation: Reservation,
    /// What the owner said, or could say.
    pub approval: Approval,
}

/// Whether a stored secret is part of what would be sent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum SecretsFound {
    /// None is.
    #[default]
    Absent,
    /// This one is.
    Present {
        /// Its name, never its value.
        name: String,
    },
    /// Not all of them could be read, so that nobody can tell.
    Unsure,
}

/// What is set aside for a call that costs money.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Reservation {
    /// Nothing; enough for what costs nothing.
    #[default]
    Missing,
    /// The whole of what it may cost.
    Held,
    /// The day's limit is reached.
    DayLimit,
}

/// What the owner said of one call, where it needs to be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Approval {
    /// The owner can't be asked.
    Unroutable(Unroutable),
    /// The owner can be asked, and was not yet.
    Askable,
    /// The owner approved this call.
    Given,
    /// The owner denied it.
    Denied,
    /// Nobody answered in time.
    Expired,
}

impl Default for Approval {
    fn default() -> Self {
        Self::Unroutable(Unroutable::Nobody)
    }
}

/// Why the owner can't be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unroutable {
    /// There is nobody who is asked.
    Nobody,
    /// It is a model call to a provider: nobody could read what it sends.
    Provider,
    /// As many questions wait as may.
    TooMany,
    /// It is too long to be shown in full.
    TooLong,
}
