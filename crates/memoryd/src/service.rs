//! Everything that memoryd can be asked, for whoever serves its routes.

use crate::folder::{Folder, FolderError};
use crate::memory::{baseline, change, news};
use crate::searcher::Searcher;
use bxcore::code::Code;
use bxcore::id::MemoryFile;
use bxcore::label::Class;
use bxcore::problem::Problem;
use bxcore::wire::memoryd::{
    MemoryBaseline, MemoryChange, MemoryChanged, MemoryListing, MemoryNews, NewsRequest,
    RecallRequest, Recalled,
};
use bxkit::fault;
use jiff::Timestamp;
use std::sync::Arc;
use tokio::sync::Mutex;

/// The service. Cheap to clone.
#[derive(Clone)]
pub struct Service {
    folder: Folder,
    searcher: Searcher,
    baseline_bytes: usize,
    /// Changes are made one after the other: two at once would find each other's file changed.
    writing: Arc<Mutex<()>>,
    failed: Arc<dyn Fn() + Send + Sync>,
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service")
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}

impl Service {
    /// A service over a folder and an index; `failed` is told each time that the system refuses.
    pub fn new(
        folder: Folder,
        searcher: Searcher,
        baseline_bytes: usize,
        failed: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        Self {
            folder,
            searcher,
            baseline_bytes,
            writing: Arc::default(),
            failed: Arc::new(failed),
        }
    }

    /// Makes a change for a session, where its label lets it be made.
    ///
    /// # Errors
    /// There is no such entry, no room, or the session may not; or the file can't be used.
    pub async fn change(&self, asked: MemoryChange) -> Result<MemoryChanged, Problem> {
        let _one_at_a_time = self.writing.lock().await;
        fault::point("memoryd.before-change");
        let changed = self
            .blocking(move |folder| change(folder, &asked, Timestamp::now()))
            .await;
        fault::point("memoryd.after-change");
        changed
    }

    /// What is in memory, or in one file of it.
    ///
    /// # Errors
    /// The folder can't be read.
    pub async fn list(&self, only: Option<MemoryFile>) -> Result<MemoryListing, Problem> {
        self.blocking(move |folder| folder.list(only.as_ref()))
            .await
    }

    /// What a session of this class begins with.
    ///
    /// # Errors
    /// The folder can't be read.
    pub async fn baseline(&self, class: Class) -> Result<MemoryBaseline, Problem> {
        let listing = self.list(None).await?;
        Ok(baseline(&listing.files, class, self.baseline_bytes))
    }

    /// What has changed since a session of this class was told what memory holds.
    ///
    /// # Errors
    /// The folder can't be read.
    pub async fn news(&self, class: Class, asked: NewsRequest) -> Result<MemoryNews, Problem> {
        let listing = self.list(None).await?;
        Ok(news(
            &listing.files,
            class,
            self.baseline_bytes,
            &asked.known,
        ))
    }

    /// Searches notes and transcripts.
    ///
    /// # Errors
    /// Too many searches wait, or the index can't be made.
    pub async fn recall(&self, request: RecallRequest) -> Result<Recalled, Problem> {
        let found = self.searcher.recall(request).await;
        fault::point("memoryd.after-recall");
        found
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Folder) -> Result<T, FolderError> + Send + 'static,
    ) -> Result<T, Problem> {
        let folder = self.folder.clone();
        let done = tokio::task::spawn_blocking(move || work(&folder)).await;
        let done = done.map_err(|error| {
            Problem::new(Code::Internal, "Work on memory broke off").detail(error.to_string())
        })?;
        done.map_err(|error| {
            if matches!(error, FolderError::System { .. }) {
                (self.failed)();
            }
            error.into()
        })
    }
}
