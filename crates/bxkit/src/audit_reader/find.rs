//! Finding one record and what belongs to it. Trusts the log: checking it is `verify`'s matter.

use super::error::AuditFault;
use super::record::Record;
use super::segments::segments;
use super::walk::MAX_LINE_BYTES;
use crate::fsx::open_regular;
use bxcore::audit::sha256_hex;
use std::io::{self, BufRead, BufReader, Read};
use std::ops::ControlFlow;
use std::path::Path;

/// A record with what belongs to it, as raw lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The record; of an outcome, its intent.
    pub record: String,
    /// The outcome of an intent, if there is one yet.
    pub outcome: Option<String>,
}

/// Finds a record by its number, an outcome together with its intent.
///
/// # Errors
/// The log can't be read.
pub fn find(folder: &Path, seq: u64) -> Result<Option<Found>, AuditFault> {
    let Some((line, kind, intent)) = line_of(folder, seq)? else {
        return Ok(None);
    };
    if kind == "outcome" {
        let Some(intent) = intent else {
            return Ok(None);
        };
        let record = line_of(folder, intent)?;
        return Ok(record.map(|(record, _, _)| Found {
            record,
            outcome: Some(line),
        }));
    }
    let outcome = if kind == "intent" {
        outcome_of(folder, seq)?
    } else {
        None
    };
    Ok(Some(Found {
        record: line,
        outcome,
    }))
}

/// The exact bytes of a body that is too large to stand in its record.
///
/// # Errors
/// The file is missing or is not what its name says.
pub fn payload(folder: &Path, sha256: &str) -> Result<String, AuditFault> {
    let path = folder.join("payloads").join(sha256);
    let differs = || AuditFault::Unreadable {
        path: path.clone(),
        source: io::Error::new(io::ErrorKind::InvalidData, "it is not what its name says"),
    };
    if !sha256.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(differs());
    }
    let mut bytes = Vec::new();
    open_regular(&path)
        .and_then(|mut file| file.read_to_end(&mut bytes))
        .map_err(|source| AuditFault::Unreadable {
            path: path.clone(),
            source,
        })?;
    if sha256_hex(&bytes) != sha256 {
        return Err(differs());
    }
    String::from_utf8(bytes).map_err(|_| differs())
}

fn line_of(folder: &Path, seq: u64) -> Result<Option<(String, String, Option<u64>)>, AuditFault> {
    let mut found = None;
    scan(folder, seq, |line, record| {
        if record.seq == seq {
            found = Some((
                line.to_owned(),
                record.kind.clone().into_owned(),
                record.intent,
            ));
        }
        if record.seq >= seq {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })?;
    Ok(found)
}

fn outcome_of(folder: &Path, intent: u64) -> Result<Option<String>, AuditFault> {
    let mut found = None;
    scan(folder, intent, |line, record| {
        if record.kind == "outcome" && record.intent == Some(intent) {
            found = Some(line.to_owned());
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })?;
    Ok(found)
}

/// Reads records in order, from the segment that has number `from` or an earlier one.
fn scan(
    folder: &Path,
    from: u64,
    mut visit: impl FnMut(&str, &Record<'_>) -> ControlFlow<()>,
) -> Result<(), AuditFault> {
    let paths = segments(folder)?;
    let mut start = 0;
    for (index, path) in paths.iter().enumerate() {
        match first_seq(path)? {
            Some(first) if first > from => break,
            _ => start = index,
        }
    }
    for path in &paths[start..] {
        if lines(path, &mut visit)?.is_break() {
            break;
        }
    }
    Ok(())
}

fn first_seq(path: &Path) -> Result<Option<u64>, AuditFault> {
    let mut first = None;
    // Broken off after one record, or over before any: either way `first` says it.
    let _ = lines(path, &mut |_, record| {
        first = Some(record.seq);
        ControlFlow::Break(())
    })?;
    Ok(first)
}

pub(super) fn lines(
    path: &Path,
    visit: &mut impl FnMut(&str, &Record<'_>) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, AuditFault> {
    let failed = |source| AuditFault::Unreadable {
        path: path.to_owned(),
        source,
    };
    let mut reader = BufReader::new(open_regular(path).map_err(failed)?);
    let mut line = String::new();
    loop {
        line.clear();
        let read = reader
            .by_ref()
            .take(MAX_LINE_BYTES + 1)
            .read_line(&mut line);
        if read.map_err(failed)? == 0 {
            return Ok(ControlFlow::Continue(()));
        }
        let line = line.trim_end_matches('\n');
        // What is no record here is `verify`'s to name; a search goes past it.
        let Ok(record) = serde_json::from_str::<Record<'_>>(line) else {
            continue;
        };
        if visit(line, &record).is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
}
