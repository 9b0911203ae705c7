//! What a chat request must look like: fields, messages, tool-call pairing, and the prefix contract.
//!
//! Works on the bytes of request bodies alone, so the scripted server and the reader of a wire dump
//! apply one and the same rule. It does no I/O and knows nothing of the product's own types.

mod body;
mod breach;
mod checker;
mod fields;
mod messages;
mod prefix;

pub use body::Body;
pub use breach::{Breach, BreachKind, Breaches};
pub use checker::{Checker, Observation, Rules};
pub use fields::Dialect;
pub use prefix::{Link, MAY_CHANGE, Openers};
