//! The slot gate: who may use which slot of which backend next.
//!
//! A slot is taken per request and never per session, so that a session which waits for a helper
//! holds none and nesting can't deadlock on one slot.

mod gate;
mod layout;
mod permit;

pub use gate::{Ask, Gate, GateError, MAX_WAITERS, Served, Ticket};
pub use layout::Layout;
pub use permit::{Permit, SlotGate};
