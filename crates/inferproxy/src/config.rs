//! `inferproxy.toml`: which servers there are and what their slots are for.

mod address;
mod check;
mod table;

pub use address::{AddressError, BackendUrl};
pub use check::{MAX_BACKENDS, MAX_CONCURRENCY, MAX_LIVENESS_SECS, MAX_SLOT, MAX_SLOTS, check};
pub use table::{BackendTable, Settings, SlotsTable, ToolsSetting};
