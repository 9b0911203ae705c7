//! The writer: stages records, writes them in one go, syncs on demand, begins new segments.

use super::checkpoints::Checkpoints;
use super::error::AuditError;
use super::payload;
use super::record::{self, BodyPlace, Record, Stamp};
use super::segment::Segment;
use bxcore::audit::{Head, Kind, MAX_INLINE_BODY_BYTES, sha256_hex};
use jiff::Timestamp;
use std::fs::File;
use std::path::PathBuf;

/// Which start of brokerd wrote a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Boot(pub String);

/// How far a write must have come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Synced {
    /// Handed to the system: it survives our death, and is on disk a moment later.
    Later,
    /// On disk.
    Now,
}

/// The log, open for writing; there is one writer at a time.
///
/// After any error it refuses all further work: a failed sync tells nothing about what is on
/// disk, and trying again could report success for data that is gone.
#[derive(Debug)]
pub struct Log {
    pub(super) folder: PathBuf,
    pub(super) boot: Boot,
    pub(super) segment: Segment,
    pub(super) head: Head,
    pub(super) max_segment_bytes: u64,
    /// Whole lines that are not handed to the system yet.
    pub(super) staged: Vec<u8>,
    pub(super) needs_sync: bool,
    pub(super) has_failed: bool,
    pub(super) checkpoints: Checkpoints,
    /// Held as long as the log is open.
    pub(super) _lock: File,
}

impl Log {
    /// The chain as it will be once everything staged is written.
    pub fn head(&self) -> Head {
        self.head
    }

    /// Whether something is written that is not on disk for sure.
    pub fn needs_sync(&self) -> bool {
        self.needs_sync || !self.staged.is_empty()
    }

    /// Adds a record and gives its number. A body that is too large for it is on disk when this
    /// returns; the record itself is written by [`Log::flush`].
    pub fn stage(
        &mut self,
        kind: Kind,
        record: &Record<'_>,
        now: Timestamp,
    ) -> Result<u64, AuditError> {
        self.guarded(|log| log.try_stage(kind, record, now))
    }

    /// Writes everything staged.
    pub fn flush(&mut self, synced: Synced) -> Result<(), AuditError> {
        self.guarded(|log| log.try_flush(synced))
    }

    pub(super) fn try_flush(&mut self, synced: Synced) -> Result<(), AuditError> {
        self.write_staged()?;
        if synced == Synced::Now && self.needs_sync {
            self.sync()
        } else {
            Ok(())
        }
    }

    pub(super) fn guarded<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, AuditError>,
    ) -> Result<T, AuditError> {
        if self.has_failed {
            return Err(AuditError::Stopped);
        }
        let done = work(self);
        self.has_failed = done.is_err();
        done
    }

    pub(super) fn try_stage(
        &mut self,
        kind: Kind,
        record: &Record<'_>,
        now: Timestamp,
    ) -> Result<u64, AuditError> {
        if self.segment.bytes >= self.max_segment_bytes {
            self.rotate()?;
        }
        let body_sha256 = record.body.map(|body| sha256_hex(body.as_bytes()));
        let fits = |body: &str| {
            record.body_place == BodyPlace::Record && body.len() <= MAX_INLINE_BODY_BYTES
        };
        let is_inline = record.body.is_none_or(fits);
        if let (Some(body), Some(sha256), false) = (record.body, &body_sha256, is_inline) {
            let path = self.folder.join(payload::FOLDER).join(sha256);
            payload::write(&self.folder, sha256, body.as_bytes())
                .map_err(|source| AuditError::Io { path, source })?;
        }
        let repeats = self.segment.records == 0 && !self.segment.is_first;
        let prev = repeats.then(|| self.head.hex());
        let time = time_text(now);
        let stamp = Stamp {
            kind,
            seq: self.head.seq + 1,
            time: &time,
            boot: &self.boot.0,
            prev: prev.as_deref(),
            body_sha256: body_sha256.as_deref(),
            is_inline,
        };
        let open = record::open_line(record, &stamp).map_err(AuditError::Json)?;
        let (line, head) = self.head.seal(&open);
        self.staged.extend_from_slice(line.as_bytes());
        self.staged.push(b'\n');
        self.segment.bytes += line.len() as u64 + 1;
        self.segment.records += 1;
        self.head = head;
        Ok(head.seq)
    }

    fn write_staged(&mut self) -> Result<(), AuditError> {
        if self.staged.is_empty() {
            return Ok(());
        }
        self.segment.check_in_place()?;
        self.segment.write(&self.staged)?;
        self.staged.clear();
        self.needs_sync = true;
        Ok(())
    }

    fn sync(&mut self) -> Result<(), AuditError> {
        self.segment.sync()?;
        self.segment.check_in_place()?;
        self.needs_sync = false;
        metrics::counter!("boxmaker_audit_syncs_total").increment(1);
        Ok(())
    }

    /// Closes the segment, on disk, and begins the next.
    fn rotate(&mut self) -> Result<(), AuditError> {
        self.write_staged()?;
        self.sync()?;
        self.segment = self.segment.next(&self.folder)?;
        Ok(())
    }
}

/// Coordinated universal time in milliseconds. The chain, not the clock, gives the order.
fn time_text(now: Timestamp) -> String {
    format!("{now:.3}")
}
