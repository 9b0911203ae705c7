//! Walking a log from its first record to its last, checking each on the way.

use super::error::{AuditFault, Place};
use super::record::Record;
use super::segments::{name_of, segments};
use crate::fsx::open_regular;
use bxcore::audit::{ChainError, Head, sha256_hex};
use bxcore::text::hex;
use sha2::{Digest, Sha256};
use std::collections::HashSet;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// The longest line that is read: an inline body with every byte escaped, and room for the rest.
pub const MAX_LINE_BYTES: u64 = 1024 * 1024;

const READ_BUFFER_BYTES: usize = 256 * 1024;

/// What a torn last line means to the reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    /// The log does not hold.
    Refused,
    /// The reader will move it aside: it is measured, and is no fault in the last segment.
    Measured,
}

/// Whether payload files are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payloads {
    /// Each is read and hashed.
    Checked,
    /// They are left alone.
    Skipped,
}

/// What a walk came by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Walked {
    /// How many records there are.
    pub records: u64,
    /// The chain after the last of them.
    pub head: Head,
    /// The last segment, where a writer goes on; none in a folder without a log.
    pub last: Option<LastSegment>,
}

/// The last segment of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastSegment {
    /// Its file.
    pub path: PathBuf,
    /// Whether it is also the first.
    pub is_first: bool,
    /// How many whole lines it has.
    pub records: u64,
    /// How many bytes these lines take.
    pub whole_bytes: u64,
    /// What stands after them, if anything does.
    pub torn_bytes: u64,
}

/// Walks a log, giving every record that holds, its raw line, and the chain after it to `visit`.
///
/// Blocks, and reads the log once, in order. A folder without segments is an empty log.
///
/// # Errors
/// The first thing that does not hold.
pub fn walk(
    folder: &Path,
    tail: Tail,
    payloads: Payloads,
    mut visit: impl FnMut(&Record<'_>, &str, &Head),
) -> Result<Walked, AuditFault> {
    let paths = segments(folder)?;
    let mut walker = Walker {
        folder,
        payloads,
        head: Head::GENESIS,
        intents: HashSet::new(),
    };
    let mut last = None;
    for (index, path) in paths.iter().enumerate() {
        let segment = walker.segment(path, index == 0, &mut visit)?;
        let may_be_torn = tail == Tail::Measured && index + 1 == paths.len();
        if segment.torn_bytes > 0 && !may_be_torn {
            return Err(AuditFault::Torn {
                segment: name_of(path),
                bytes: segment.torn_bytes,
            });
        }
        last = Some(segment);
    }
    Ok(Walked {
        records: walker.head.seq,
        head: walker.head,
        last,
    })
}

struct Walker<'a> {
    folder: &'a Path,
    payloads: Payloads,
    head: Head,
    /// Every intent so far: an outcome may come segments later.
    intents: HashSet<u64>,
}

impl Walker<'_> {
    fn segment(
        &mut self,
        path: &Path,
        is_first: bool,
        visit: &mut impl FnMut(&Record<'_>, &str, &Head),
    ) -> Result<LastSegment, AuditFault> {
        let failed = |source| AuditFault::Unreadable {
            path: path.to_owned(),
            source,
        };
        let file = open_regular(path).map_err(failed)?;
        let mut reader = BufReader::with_capacity(READ_BUFFER_BYTES, file);
        let mut segment = LastSegment {
            path: path.to_owned(),
            is_first,
            records: 0,
            whole_bytes: 0,
            torn_bytes: 0,
        };
        let mut line = Vec::new();
        loop {
            line.clear();
            let limit = MAX_LINE_BYTES + 1;
            let read = reader.by_ref().take(limit).read_until(b'\n', &mut line);
            let bytes = read.map_err(failed)? as u64;
            if bytes == 0 {
                return Ok(segment);
            }
            if line.last() != Some(&b'\n') {
                if bytes <= MAX_LINE_BYTES {
                    segment.torn_bytes = bytes;
                    return Ok(segment);
                }
                let rest = torn_rest(&mut reader).map_err(failed)?;
                if let Some(rest) = rest {
                    segment.torn_bytes = bytes + rest;
                    return Ok(segment);
                }
                return Err(AuditFault::TooLong {
                    place: place(path, segment.records + 1),
                    max_bytes: MAX_LINE_BYTES,
                });
            }
            line.pop();
            let at = || place(path, segment.records + 1);
            self.line(&line, segment.records == 0 && !is_first, &at, visit)?;
            segment.records += 1;
            segment.whole_bytes += bytes;
        }
    }

    fn line(
        &mut self,
        line: &[u8],
        must_repeat: bool,
        at: &dyn Fn() -> Place,
        visit: &mut impl FnMut(&Record<'_>, &str, &Head),
    ) -> Result<(), AuditFault> {
        let not_a_record = |why: String| AuditFault::NotARecord { place: at(), why };
        // Only what is not text at all can't be hashed as text; its hash could not be right.
        let line = std::str::from_utf8(line).map_err(|_| AuditFault::Chain {
            place: at(),
            why: ChainError::WrongHash,
        })?;
        let next = self
            .head
            .follow(line)
            .map_err(|why| AuditFault::Chain { place: at(), why })?;
        let record: Record<'_> =
            serde_json::from_str(line).map_err(|error| not_a_record(error.to_string()))?;
        if must_repeat && record.prev.as_deref() != Some(&self.head.hex()) {
            return Err(AuditFault::Prev { place: at() });
        }
        if record.seq != next.seq {
            return Err(AuditFault::Gap {
                place: at(),
                found: record.seq,
                before: self.head.seq,
            });
        }
        self.body(&record, at)?;
        match &*record.kind {
            "intent" => {
                self.intents.insert(record.seq);
            }
            "outcome" if record.intent.is_none_or(|seq| !self.intents.contains(&seq)) => {
                return Err(AuditFault::Outcome { place: at() });
            }
            _ => {}
        }
        self.head = next;
        visit(&record, line, &self.head);
        Ok(())
    }

    fn body(&self, record: &Record<'_>, at: &dyn Fn() -> Place) -> Result<(), AuditFault> {
        let sha256 = record.body_sha256.as_deref();
        if let Some(body) = record.body.as_deref() {
            let length = Some(body.len() as u64);
            if record.body_len != length || sha256 != Some(&sha256_hex(body.as_bytes())) {
                return Err(AuditFault::Body { place: at() });
            }
            return Ok(());
        }
        let Some(sha256) = sha256.filter(|sha256| !sha256.is_empty()) else {
            return Ok(());
        };
        if self.payloads == Payloads::Checked && !payload_holds(self.folder, sha256) {
            return Err(AuditFault::Payload {
                place: at(),
                sha256: sha256.to_owned(),
            });
        }
        Ok(())
    }
}

fn place(path: &Path, line: u64) -> Place {
    Place {
        segment: name_of(path),
        line,
    }
}

/// How much follows a line that is too long, if nothing but that line follows.
fn torn_rest(reader: &mut impl BufRead) -> io::Result<Option<u64>> {
    let mut bytes = 0;
    loop {
        let chunk = reader.fill_buf()?;
        if chunk.is_empty() {
            return Ok(Some(bytes));
        }
        if chunk.contains(&b'\n') {
            return Ok(None);
        }
        let length = chunk.len();
        bytes += length as u64;
        reader.consume(length);
    }
}

/// Whether a payload file is there and is what its name says.
fn payload_holds(folder: &Path, sha256: &str) -> bool {
    // A name with a path in it would lead elsewhere, and can't be a digest anyway.
    if !sha256.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return false;
    }
    let Ok(mut file) = open_regular(&folder.join("payloads").join(sha256)) else {
        return false;
    };
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; READ_BUFFER_BYTES];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return hex(&hasher.finalize()) == sha256,
            Ok(length) => hasher.update(&buffer[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return false,
        }
    }
}
