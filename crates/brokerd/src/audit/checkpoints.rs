//! Checkpoints: the head of the chain, signed, in the chain and beside it.
//!
//! A chain can't see that its own end was cut off, or that an older copy was put in its place. The
//! file beside the log finds that after an accident; whoever can write the log can write the file,
//! so that the owner's own copy (`boxmaker audit checkpoint`) is what finds a hostile hand.

use super::error::AuditError;
use super::record::Record;
use super::writer::{Log, Synced};
use bxcore::audit::{Checkpoint, Head, Kind};
use bxcore::day::utc_day;
use bxcore::text::hex;
use bxkit::audit_reader::{CHECKPOINT_FILE, KEY_FILE};
use bxkit::fsx::{careful, read_nofollow_private, write_atomic};
use ed25519_dalek::{SECRET_KEY_LENGTH, Signer, SigningKey};
use jiff::Timestamp;
use jiff::civil::Date;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// After how many records a checkpoint is written.
pub const CHECKPOINT_RECORDS: u64 = 1_000;

/// The key, and when something was signed last.
#[derive(Debug)]
pub(super) struct Checkpoints {
    key: SigningKey,
    /// The number of the record of the last checkpoint.
    last_seq: u64,
    /// The day (UTC) of the last checkpoint, or of the start.
    last_day: Date,
}

impl Checkpoints {
    /// Reads the key, or makes it; `last_seq` is the number of the last checkpoint's own record.
    pub(super) fn open(folder: &Path, last_seq: u64, now: Timestamp) -> Result<Self, AuditError> {
        Ok(Self {
            key: key(folder)?,
            last_seq,
            last_day: utc_day(now),
        })
    }
}

impl Log {
    /// Whether it is time for a checkpoint.
    pub fn is_checkpoint_due(&self, now: Timestamp) -> bool {
        let since = self.head.seq.saturating_sub(self.checkpoints.last_seq);
        since >= CHECKPOINT_RECORDS || (since > 0 && utc_day(now) != self.checkpoints.last_day)
    }

    /// Whether anything is on record that no checkpoint covers.
    pub fn is_past_checkpoint(&self) -> bool {
        self.head.seq > self.checkpoints.last_seq
    }

    /// Signs the chain as it is, and puts that on record, in the chain and beside it.
    pub fn checkpoint(&mut self, now: Timestamp) -> Result<Checkpoint, AuditError> {
        self.guarded(|log| log.try_checkpoint(now))
    }

    fn try_checkpoint(&mut self, now: Timestamp) -> Result<Checkpoint, AuditError> {
        let signed = sign(&self.checkpoints.key, &self.head, now);
        let line = serde_json::to_string(&signed).map_err(AuditError::Json)?;
        let record = Record {
            body: Some(&line),
            ..Record::default()
        };
        self.checkpoints.last_seq = self.try_stage(Kind::Checkpoint, &record, now)?;
        self.checkpoints.last_day = utc_day(now);
        self.try_flush(Synced::Now)?;
        let path = self.folder.join(CHECKPOINT_FILE);
        append(&path, &line).map_err(|source| AuditError::Io { path, source })?;
        Ok(signed)
    }
}

fn sign(key: &SigningKey, head: &Head, now: Timestamp) -> Checkpoint {
    let signature = key.sign(&Checkpoint::message(head));
    Checkpoint {
        seq: head.seq,
        hash: head.hex(),
        ts: now.to_string(),
        key: hex(key.verifying_key().as_bytes()),
        signature: hex(&signature.to_bytes()),
    }
}

/// Adds a line in one write, so that a crash leaves all of it or a piece that is no line.
fn append(path: &Path, line: &str) -> io::Result<()> {
    let mut options = careful();
    options.read(true).append(true).create(true).mode(0o600);
    let mut file = options.open(path)?;
    let mut last = [b'\n'];
    if file.metadata()?.len() > 0 {
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
    }
    // What a crash has torn is a line of its own, and not the beginning of this one.
    let separator = if last == *b"\n" { "" } else { "\n" };
    file.write_all(format!("{separator}{line}\n").as_bytes())?;
    file.sync_data()
}

fn key(folder: &Path) -> Result<SigningKey, AuditError> {
    let path = folder.join(KEY_FILE);
    let failed = |path: PathBuf, source| AuditError::Io { path, source };
    if !path.exists() {
        let mut secret = [0; SECRET_KEY_LENGTH];
        getrandom::fill(&mut secret)
            .map_err(|error| failed(path.clone(), io::Error::other(error)))?;
        write_atomic(&path, &secret, 0o600).map_err(|source| failed(path.clone(), source))?;
        return Ok(SigningKey::from_bytes(&secret));
    }
    let bytes = read_nofollow_private(&path)
        .map_err(|error| failed(path.clone(), io::Error::other(error)))?;
    let secret: [u8; SECRET_KEY_LENGTH] = bytes.try_into().map_err(|_| {
        let wrong = io::Error::new(io::ErrorKind::InvalidData, "it is not a key of 32 bytes");
        failed(path, wrong)
    })?;
    Ok(SigningKey::from_bytes(&secret))
}
