//! `brokerd.db`: the label of every session and of every file that a tool wrote, and the result of
//! every call.
//!
//! One connection, one writer. Labels only rise: the rule is in the code and in the database.

mod approvals;
mod calls;
mod checkpoint;
mod copy;
mod error;
mod files;
mod mcp;
mod models;
mod open;
mod sessions;
mod spending;

pub use approvals::{KEPT_APPROVALS, StoredApproval};
pub use calls::{KEPT_CALLS, Key, Recorded, StoredCall};
pub use copy::copy;
pub use error::LedgerError;
pub use files::{MAX_LABELLED_FILES, Spot, WHOLE};
pub use mcp::ToolTexts;
pub use open::{Durability, Ledger};
pub use sessions::{MAX_ANCESTORS, SessionRow};
