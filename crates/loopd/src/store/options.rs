//! Where a store keeps its things, and the few figures it can be told.

use jiff::Timestamp;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How long written transcript lines may wait for their file's sync; the journal holds them until
/// then.
const SYNC_INTERVAL: Duration = Duration::from_secs(5);

/// Tells the time.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Where a store keeps its things.
#[derive(Clone)]
pub struct StoreOptions {
    /// The database file; its folder must be there.
    pub db: PathBuf,
    /// The folder of transcripts, one folder a session; made if missing.
    pub sessions_dir: PathBuf,
    /// The folder that backups are made in; made when the first is.
    pub backups_dir: PathBuf,
    /// Tells the time.
    pub clock: Clock,
    /// How long written transcript lines may wait for their file's sync.
    pub sync_interval: Duration,
    /// The most pages of 4 KiB that the database may have; none for no limit.
    pub max_db_pages: Option<u32>,
}

impl StoreOptions {
    /// The usual places below a state folder, and the system's clock.
    pub fn in_folder(state: &Path) -> Self {
        Self {
            db: state.join("boxmaker.db"),
            sessions_dir: state.join("sessions"),
            backups_dir: state.join("backups"),
            clock: Arc::new(Timestamp::now),
            sync_interval: SYNC_INTERVAL,
            max_db_pages: None,
        }
    }
}

impl fmt::Debug for StoreOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreOptions")
            .field("db", &self.db)
            .field("sessions_dir", &self.sessions_dir)
            .finish_non_exhaustive()
    }
}
