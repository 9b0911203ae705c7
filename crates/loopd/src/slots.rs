//! The slot gate: who may use which slot of which backend next.
//!
//! A slot is taken per request and never per session: a session that waits for a helper leaves its
//! slot to that helper, so that even a single slot is enough for both.

mod gate;
mod layout;
mod permit;

pub use gate::{Ask, Gate, GateError, MAX_WAITERS, Served, Ticket};
pub use layout::Layout;
pub use permit::{Permit, SlotGate};
