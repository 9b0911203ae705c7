//! Reading and checking the audit log; needs nothing but its folder, and writes nothing.
//!
//! brokerd walks its own log with this at every start, the CLI verifies with it offline. The
//! format is in `bxcore::audit`.

mod checkpoint;
mod error;
mod find;
mod latest;
mod record;
mod segments;
mod verify;
mod walk;

pub use checkpoint::{
    CHECKPOINT_FILE, CheckpointError, KEY_FILE, last_checkpoint, read_checkpoint,
};
pub use error::{AuditFault, Place};
pub use find::{Found, find, payload};
pub use latest::latest;
pub use record::Record;
pub use segments::{MAX_SEGMENTS, segments};
pub use verify::{Expected, Verified, verify};
pub use walk::{LastSegment, MAX_LINE_BYTES, Payloads, Tail, Walked, walk};
