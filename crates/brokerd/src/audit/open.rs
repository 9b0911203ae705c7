//! Opening the log: lock, check from the first record on, move a torn tail aside.

use super::checkpoints::Checkpoints;
use super::error::AuditError;
use super::payload;
use super::record::Record;
use super::segment::Segment;
use super::writer::{Boot, Log, Synced};
use bxcore::audit::{Checkpoint, Kind, MAX_SEGMENT_BYTES, sha256_hex};
use bxkit::audit_reader::{self, CHECKPOINT_FILE, LastSegment, Payloads, Tail};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

/// What the name of a torn tail's file begins with.
const TORN_PREFIX: &str = "torn-";
/// The file that the writer holds a lock on.
const LOCK_FILE: &str = "writer.lock";

/// A log that is open for writing, and what was found in it.
#[derive(Debug)]
pub struct Opened {
    /// The log.
    pub log: Log,
    /// Intents that have no outcome, by their number: the process died between the two.
    pub open_intents: BTreeMap<u64, OpenIntent>,
    /// What each checkpoint in it says of the chain: numbers and hashes of records that it has.
    pub signed: HashMap<u64, String>,
}

/// An intent without an outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenIntent {
    /// The session.
    pub session: Option<String>,
    /// The session's number for the call.
    pub call: Option<u64>,
    /// The tool.
    pub tool: Option<String>,
    /// The SHA-256 of the arguments, as hex.
    pub arguments_sha256: Option<String>,
}

/// The body of a `recovered` record.
#[derive(Debug, Serialize, Deserialize)]
struct Recovered {
    /// The file, within the log's folder, to which the tail was moved.
    file: String,
    bytes: u64,
    sha256: String,
}

impl Log {
    /// Opens the log in a folder, making it if there is none.
    ///
    /// Blocks while it reads and checks the whole log.
    ///
    /// # Errors
    /// Another process writes it, the chain does not hold, or the disk fails.
    pub fn open(folder: &Path, boot: Boot, now: Timestamp) -> Result<Opened, AuditError> {
        Self::open_with(folder, boot, now, MAX_SEGMENT_BYTES)
    }

    /// Like [`Log::open`], with another size at which a new segment is begun.
    pub(crate) fn open_with(
        folder: &Path,
        boot: Boot,
        now: Timestamp,
        max_segment_bytes: u64,
    ) -> Result<Opened, AuditError> {
        make_folders(folder)?;
        let lock = lock(folder)?;
        let mut open_intents = BTreeMap::new();
        let mut recorded = HashSet::new();
        let mut signed = HashMap::new();
        let mut last_checkpoint = 0;
        let walked =
            audit_reader::walk(folder, Tail::Measured, Payloads::Skipped, |record, _, _| {
                match &*record.kind {
                    "intent" => {
                        open_intents.insert(record.seq, open_intent(record));
                    }
                    "outcome" => {
                        record.intent.map(|intent| open_intents.remove(&intent));
                    }
                    "recovered" => {
                        let body = record.body.as_deref().unwrap_or_default();
                        let recovered = serde_json::from_str::<Recovered>(body);
                        recorded.extend(recovered.ok().map(|recovered| recovered.file));
                    }
                    "checkpoint" => {
                        last_checkpoint = record.seq;
                        let body = record.body.as_deref().unwrap_or_default();
                        let checkpoint = serde_json::from_str::<Checkpoint>(body).ok();
                        signed.extend(checkpoint.map(|signed| (signed.seq, signed.hash)));
                    }
                    _ => {}
                }
            })?;
        let beside = audit_reader::last_checkpoint(folder).map_err(|source| AuditError::Io {
            path: folder.join(CHECKPOINT_FILE),
            source,
        })?;
        if let Some(beside) = beside
            && signed.get(&beside.seq) != Some(&beside.hash)
        {
            return Err(AuditError::Behind { seq: beside.seq });
        }
        if let Some(last) = walked.last.as_ref().filter(|last| last.torn_bytes > 0) {
            move_aside(folder, last)?;
        }
        let segment = match &walked.last {
            Some(last) => Segment::reopen(last)?,
            None => Segment::create(folder, 1)?,
        };
        let mut log = Self {
            folder: folder.to_owned(),
            boot,
            segment,
            head: walked.head,
            max_segment_bytes,
            staged: Vec::new(),
            needs_sync: false,
            has_failed: false,
            checkpoints: Checkpoints::open(folder, last_checkpoint, now)?,
            _lock: lock,
        };
        log.record_torn_tails(&recorded, now)?;
        Ok(Opened {
            log,
            open_intents,
            signed,
        })
    }

    /// Puts every tail that was moved aside on record, also one that was moved just before an
    /// earlier start died.
    fn record_torn_tails(
        &mut self,
        recorded: &HashSet<String>,
        now: Timestamp,
    ) -> Result<(), AuditError> {
        let folder = self.folder.clone();
        let failed = |source| AuditError::Io {
            path: folder.clone(),
            source,
        };
        for entry in std::fs::read_dir(&folder).map_err(failed)? {
            let name = entry
                .map_err(failed)?
                .file_name()
                .to_string_lossy()
                .into_owned();
            if !name.starts_with(TORN_PREFIX) || recorded.contains(&name) {
                continue;
            }
            let tail = std::fs::read(folder.join(&name)).map_err(failed)?;
            let sha256 = sha256_hex(&tail);
            tracing::warn!(
                file = name,
                bytes = tail.len(),
                "a torn tail of the audit log was moved aside"
            );
            let body = Recovered {
                file: name,
                bytes: tail.len() as u64,
                sha256,
            };
            let body = serde_json::to_string(&body).map_err(AuditError::Json)?;
            let record = Record {
                body: Some(&body),
                ..Record::default()
            };
            self.stage(Kind::Recovered, &record, now)?;
        }
        self.flush(Synced::Now)
    }
}

fn open_intent(record: &audit_reader::Record<'_>) -> OpenIntent {
    OpenIntent {
        session: record.session.as_deref().map(str::to_owned),
        call: record.call,
        tool: record.tool.as_deref().map(str::to_owned),
        arguments_sha256: record
            .arguments_sha256
            .as_deref()
            .or(record.body_sha256.as_deref())
            .map(str::to_owned),
    }
}

fn make_folders(folder: &Path) -> Result<(), AuditError> {
    let payloads = folder.join(payload::FOLDER);
    let failed = |source| AuditError::Io {
        path: payloads.clone(),
        source,
    };
    let mut builder = std::fs::DirBuilder::new();
    builder
        .recursive(true)
        .mode(0o700)
        .create(&payloads)
        .map_err(failed)?;
    bxkit::fsx::sync_dir(folder).map_err(failed)
}

fn lock(folder: &Path) -> Result<File, AuditError> {
    let path = folder.join(LOCK_FILE);
    let failed = |source| AuditError::Io {
        path: path.clone(),
        source,
    };
    let mut options = File::options();
    let file = options.write(true).create(true).truncate(false).mode(0o600);
    let file = file.open(&path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(AuditError::Held(folder.to_owned())),
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}

/// Copies a torn tail to a file of its own, on disk, and only then cuts it off.
fn move_aside(folder: &Path, last: &LastSegment) -> Result<(), AuditError> {
    let failed = |source: io::Error| AuditError::Io {
        path: last.path.clone(),
        source,
    };
    let mut file = File::options()
        .read(true)
        .write(true)
        .open(&last.path)
        .map_err(failed)?;
    file.seek(SeekFrom::Start(last.whole_bytes))
        .map_err(failed)?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail).map_err(failed)?;
    let segment = last.path.file_stem().unwrap_or_default().to_string_lossy();
    // Named by place and content: doing it again after a crash in between writes the same file.
    let digest = &sha256_hex(&tail)[..16];
    let name = format!("{TORN_PREFIX}{segment}-{}-{digest}", last.whole_bytes);
    bxkit::fsx::write_atomic(&folder.join(name), &tail, 0o600).map_err(failed)?;
    file.set_len(last.whole_bytes)
        .and_then(|()| file.sync_all())
        .map_err(failed)
}
