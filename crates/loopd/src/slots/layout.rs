//! What a backend has to give: numbered slots, or a number of requests at once.

use bxcore::wire::inferproxy::{BackendInfo, SlotLayout};

/// The capacity of one backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Layout {
    /// Numbered slots, each with a cache of its own.
    Slots(SlotLayout),
    /// This many requests at once, with no say in where they run.
    Concurrency(u32),
}

impl Layout {
    /// The capacity that inferproxy reports.
    pub fn of(info: &BackendInfo) -> Self {
        match &info.slots {
            Some(slots) => Self::Slots(slots.clone()),
            None => Self::Concurrency(info.max_concurrency.max(1)),
        }
    }
}
