//! `brokerd.db`: the label of every session, and the result of every call.
//!
//! One connection, one writer. Labels only rise: the rule is in the code and in the database.

mod calls;
mod copy;
mod error;
mod open;
mod sessions;

pub use calls::{KEPT_CALLS, Key, Recorded, StoredCall};
pub use copy::copy;
pub use error::LedgerError;
pub use open::{Durability, Ledger};
pub use sessions::{MAX_ANCESTORS, SessionRow};
