//! The whole check of a log, as the CLI offers it.

use super::error::AuditFault;
use super::walk::{Payloads, Tail, walk};
use bxcore::audit::Head;
use std::path::Path;

/// A record that the log must reach: finds a tail that was cut off, and an older copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected {
    /// Its number.
    pub seq: u64,
    /// Its hash, as hex.
    pub hash: String,
}

/// A log that holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verified {
    /// How many records it has.
    pub records: u64,
    /// The chain after the last.
    pub head: Head,
}

/// Checks a whole log: lines, chain, numbers, bodies, payload files, outcomes.
///
/// # Errors
/// The first thing that does not hold; an empty folder does not.
pub fn verify(folder: &Path, expected: Option<&Expected>) -> Result<Verified, AuditFault> {
    let mut reached = false;
    let walked = walk(folder, Tail::Refused, Payloads::Checked, |_, _, head| {
        reached |= expected.is_some_and(|e| e.seq == head.seq && e.hash == head.hex());
    })?;
    if walked.last.is_none() {
        return Err(AuditFault::NoSegments(folder.to_owned()));
    }
    match expected {
        Some(expected) if !reached => Err(AuditFault::Head { seq: expected.seq }),
        _ => Ok(Verified {
            records: walked.records,
            head: walked.head,
        }),
    }
}
