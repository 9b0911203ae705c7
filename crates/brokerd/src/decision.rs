//! Whether a tool call may run: one walk over nine rules, as a pure function.
//!
//! No I/O, no clock, no state: what a rule needs of the world is handed in as [`Facts`].

mod arguments;
mod facts;
mod grants;
mod question;
mod rules;
mod walk;

pub use arguments::{Arguments, MAX_ARGUMENT_BYTES, Schema, SchemaError};
pub use facts::{Approval, Facts, Reservation, SecretsFound, Unroutable};
pub use grants::{Unreached, admits_host, needs_grant, sends, unreached};
pub use question::{Judged, Question};
pub use walk::{Decision, Next, decide};
