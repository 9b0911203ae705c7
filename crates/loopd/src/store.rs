//! Everything loopd keeps: the journal, the budget tree and the index of sessions in SQLite, and
//! each session's transcript file.
//!
//! One thread owns the database and the files and commits for all sessions together; the rest of
//! loopd talks to it through [`Store`]. Nothing here knows what a turn does or means.

mod backup;
mod batch;
mod command;
mod delete;
mod error;
mod files;
mod handle;
mod heads;
mod housekeeper;
mod lock;
mod options;
mod place;
mod plan;
mod reader;
mod reconcile;
mod recovery;
mod rows;
mod schema;
mod state;
mod views;
mod writer;

pub use backup::{BackupName, MAX_BACKUP_NAME_BYTES};
pub use batch::{
    AccountSpec, Batch, BatchError, Committed, MAX_BATCH_ENTRIES, MAX_BATCH_OPS, MAX_LINE_BYTES,
    Op, Reservation, Settlement,
};
pub use error::StoreError;
pub use handle::Store;
pub use options::{Clock, StoreOptions};
pub use views::{
    AccountView, Counters, LedgerRow, LostCall, RawLog, Recovery, Repair, Repaired, Unfinished,
};
