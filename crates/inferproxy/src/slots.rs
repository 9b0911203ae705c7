//! Who may use which slot of a server, and what the server itself says about them.

mod gate;
mod page;
mod table;

pub use gate::{SlotDrain, SlotGate, SlotHold};
pub use page::{PageError, SlotLook, SlotsPage};
pub use table::{Claim, Holder, Refusal, Row, RowState, SlotTable, Ticket};
