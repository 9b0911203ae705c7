//! The store as the rest of loopd sees it.

use super::backup::{BackupName, make_backup};
use super::batch::{Batch, Committed};
use super::command::{Command, Job, Reply};
use super::error::StoreError;
use super::housekeeper::Housekeeper;
use super::lock::Lock;
use super::options::StoreOptions;
use super::reader::Reader;
use super::views::{AccountView, Counters, LedgerRow, RawLog, Recovery};
use super::writer::Writer;
use super::{rows, schema};
use crate::budget::AccountKey;
use crate::schedule::Stamp;
use crate::session::read;
use bxcore::id::SessionId;
use bxcore::transcript::Line;
use bxcore::wire::loopd::{BackupReport, SessionRow};
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::Arc;
use std::thread;
use tokio::sync::{mpsc, oneshot};

/// How many commands may wait for the writer; whoever sends more waits with them.
const MAX_WAITING_COMMANDS: usize = 1024;

/// Everything loopd keeps. A clone is another handle on the same store.
///
/// The store ends when the last handle is dropped, or at once with [`Store::close`].
#[derive(Debug, Clone)]
pub struct Store {
    inbox: mpsc::Sender<Command>,
    reader: Arc<Reader>,
    options: Arc<StoreOptions>,
}

impl Store {
    /// Opens a store, or makes one, and puts right what a crash left. Blocks.
    ///
    /// # Errors
    /// Another process holds it (`home-held`), the database is damaged or not ours
    /// (`state-broken`), or there is no space to put things right (`disk-full`).
    pub fn open(options: StoreOptions) -> Result<(Self, Recovery), StoreError> {
        options.make_files()?;
        let lock = Lock::take(&options.db)?;
        let db = schema::open_writer(&options.db, options.max_db_pages)?;
        let mut writer = Writer::new(options.clone(), db, lock)?;
        let recovery = writer.recover()?;
        let reader = Arc::new(Reader::open(&options.db)?);
        let (inbox, commands) = mpsc::channel(MAX_WAITING_COMMANDS);
        let housekeeper = Housekeeper::start(options.clone(), inbox.downgrade())?;
        let place = options.db.clone();
        thread::Builder::new()
            .name("loopd-store".to_owned())
            .spawn(move || writer.run(commands, housekeeper))
            .map_err(|error| StoreError::file(&place, &error))?;
        let options = Arc::new(options);
        let store = Self {
            inbox,
            reader,
            options,
        };
        Ok((store, recovery))
    }

    /// Makes a batch durable: all of it or nothing. Batches of one session take effect in the order
    /// in which they are sent.
    ///
    /// A refused reservation is no error; see [`Committed::reserved`]. Dropping the future does not
    /// take the batch back.
    ///
    /// # Errors
    /// There is no space (`disk-full`; a later attempt may succeed), the transcript is broken, or
    /// the batch contradicts what is stored.
    pub async fn commit(&self, batch: Batch) -> Result<Committed, StoreError> {
        self.ask(|reply| Command::Commit(Job { batch, reply }))
            .await
    }

    /// A session's transcript.
    ///
    /// # Errors
    /// There is no such session, or its transcript is broken and can't be put right.
    pub async fn load(&self, session: &SessionId) -> Result<Vec<Line>, StoreError> {
        // The first attempt may find damage that the second reading finds put right.
        if let Ok(lines) = self.read_lines(session).await? {
            return Ok(lines);
        }
        let damaged = session.clone();
        self.ask(|reply| Command::Recheck(damaged, reply)).await?;
        let lines = self.read_lines(session).await?;
        lines.map_err(|why| StoreError::TranscriptBroken {
            session: session.clone(),
            why,
        })
    }

    /// Reads a transcript, or says what is wrong with it.
    async fn read_lines(
        &self,
        session: &SessionId,
    ) -> Result<Result<Vec<Line>, String>, StoreError> {
        let log = self.raw_log(session).await?;
        let session = session.clone();
        blocking(move || {
            let path = log.path.clone();
            let expected = log.total_bytes();
            let mut bytes = Vec::new();
            let done = log
                .open()
                .and_then(|mut reader| reader.read_to_end(&mut bytes));
            match done {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Ok(Err("its file is gone".to_owned()));
                }
                done => done.map_err(|error| StoreError::file(&path, &error))?,
            };
            if bytes.len() as u64 != expected {
                let found = bytes.len();
                return Ok(Err(format!("its file has {found} of {expected} bytes")));
            }
            Ok(read(&session, &bytes).map_err(|fault| fault.to_string()))
        })
        .await
    }

    /// A session's transcript as it is on the disk.
    ///
    /// # Errors
    /// As for [`Store::load`], as far as the file's length shows it.
    pub async fn raw_log(&self, session: &SessionId) -> Result<RawLog, StoreError> {
        let session = session.clone();
        self.ask(|reply| Command::Log(session, reply)).await
    }

    /// The highest numbers that a session used; for one that isn't there, those that earlier
    /// sessions of its name used.
    pub async fn counters(&self, session: &SessionId) -> Result<Counters, StoreError> {
        let session = session.clone();
        self.ask(|reply| Command::Counters(session, reply)).await
    }

    /// Every session, the most recent first. Reads the index alone.
    pub async fn sessions(&self) -> Result<Vec<SessionRow>, StoreError> {
        let reader = Arc::clone(&self.reader);
        blocking(move || reader.ask(rows::session_rows)).await
    }

    /// One session as it is listed.
    ///
    /// # Errors
    /// There is no such session.
    pub async fn session(&self, session: &SessionId) -> Result<SessionRow, StoreError> {
        let reader = Arc::clone(&self.reader);
        let session = session.clone();
        blocking(move || {
            let row = reader.ask(|db| rows::session_row(db, &session))?;
            row.ok_or(StoreError::SessionUnknown(session))
        })
        .await
    }

    /// What a session's model calls were charged, in their order. It outlives the session.
    pub async fn ledger(&self, session: &SessionId) -> Result<Vec<LedgerRow>, StoreError> {
        let reader = Arc::clone(&self.reader);
        let session = session.clone();
        blocking(move || reader.ask(|db| rows::ledger(db, &session))).await
    }

    /// An account: what was spent, what is held, what is left. `None` if there is none.
    pub async fn account(&self, key: &AccountKey) -> Result<Option<AccountView>, StoreError> {
        let key = key.clone();
        self.ask(|reply| Command::Account(key, reply)).await
    }

    /// What is known of every entry that the schedule ever had.
    pub async fn stamps(&self) -> Result<BTreeMap<SessionId, Stamp>, StoreError> {
        let reader = Arc::clone(&self.reader);
        blocking(move || reader.ask(rows::stamps)).await
    }

    /// Keeps what is known of an entry of the schedule; on disk when this returns.
    pub async fn put_stamp(&self, session: &SessionId, stamp: &Stamp) -> Result<(), StoreError> {
        let (session, stamp) = (session.clone(), stamp.clone());
        self.ask(|reply| Command::PutStamp(session, stamp, reply))
            .await
    }

    /// Removes a session and everything it said; its ledger stays.
    ///
    /// # Errors
    /// There is no such session, or a model call of it is under way.
    pub async fn delete(&self, session: &SessionId) -> Result<(), StoreError> {
        let session = session.clone();
        self.ask(|reply| Command::Delete(session, reply)).await
    }

    /// Makes a consistent copy of the database and every transcript, laid out like the originals,
    /// while everything goes on.
    ///
    /// # Errors
    /// A backup of this name is there, or there is no space for another.
    pub async fn backup(&self, name: BackupName) -> Result<BackupReport, StoreError> {
        let options = Arc::clone(&self.options);
        blocking(move || make_backup(&options, &name)).await
    }

    /// Writes out everything and ends the store; then another process may open it. Every later
    /// question is answered with [`StoreError::Closed`].
    pub async fn close(&self) {
        let (told, done) = oneshot::channel();
        // A store that is closed already has nothing to say.
        if self.inbox.send(Command::Close(told)).await.is_ok() {
            let _ = done.await;
        }
    }

    async fn ask<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let sent = self.inbox.send(command(reply)).await;
        sent.map_err(|_| StoreError::Closed)?;
        answer.await.unwrap_or(Err(StoreError::Closed))
    }
}

/// Runs what blocks away from the tasks.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or(Err(StoreError::Closed))
}
