//! Writing the audit log: the only writer there is. Reading it is `bxkit::audit_reader`'s matter.
//!
//! The format is in `bxcore::audit`. A write or a sync that fails ends all writing for good.

mod checkpoints;
mod error;
mod open;
mod payload;
mod record;
mod segment;
mod writer;

pub use checkpoints::CHECKPOINT_RECORDS;
pub use error::AuditError;
pub use open::{OpenIntent, Opened};
pub use record::{BodyPlace, Decided, Ended, Raw, Record};
pub use writer::{Boot, Log, Synced};

#[cfg(test)]
mod tests;
