//! The audit log's format: records chained by hash over their raw bytes.
//!
//! A line ends in `,"h":"<64 hex>"}`, where
//! `h(N) = SHA-256("bx-audit-v1\0" ‖ h(N−1) ‖ the bytes of the line before ,"h":")` and `h(0)` is 32
//! zero bytes. What is hashed are the bytes in the file, so that a reader need not write JSON anew to
//! check it. brokerd alone writes; anyone may verify.

use crate::text::hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The version in each record's `v`.
pub const AUDIT_VERSION: u32 = 1;
/// What the hash of every record begins with.
pub const AUDIT_DOMAIN: &[u8] = b"bx-audit-v1\0";
/// The size at which a segment is closed and the next one begun, in bytes.
pub const MAX_SEGMENT_BYTES: u64 = 64 * 1024 * 1024;
/// The largest body that stands in a record itself, in bytes; a larger one is a payload file.
pub const MAX_INLINE_BODY_BYTES: usize = 64 * 1024;

const MARK: &str = ",\"h\":\"";
const HEX_LEN: usize = 64;
/// How many bytes a line has after the hashed part: mark, hash, quote and brace.
const TAIL_LEN: usize = MARK.len() + HEX_LEN + 2;

/// What a record of the log is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Something was allowed and is about to run; on disk before it does.
    Intent,
    /// How what was allowed ended.
    Outcome,
    /// Something was not allowed, and did not run.
    Deny,
    /// A session made another one.
    Spawn,
    /// The owner lowered the label of one object.
    Endorse,
    /// The configuration that decisions are made by from here on.
    Config,
    /// The owner's answer to a question.
    Approval,
    /// A torn tail was moved aside.
    Recovered,
    /// The chain's head, signed.
    Checkpoint,
}

/// The state of the chain after some record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The number of the last record; 0 before the first.
    pub seq: u64,
    /// Its hash.
    pub hash: [u8; 32],
}

impl Head {
    /// The chain before its first record.
    pub const GENESIS: Self = Self {
        seq: 0,
        hash: [0; 32],
    };

    /// The hash as hex.
    pub fn hex(&self) -> String {
        hex(&self.hash)
    }

    /// Seals a record: takes its JSON without the closing brace, gives the whole line (without a
    /// line end) and the new head.
    pub fn seal(&self, open_record: &str) -> (String, Self) {
        let hash = chain(&self.hash, open_record.as_bytes());
        let line = format!("{open_record}{MARK}{}\"}}", hex(&hash));
        (
            line,
            Self {
                seq: self.seq + 1,
                hash,
            },
        )
    }

    /// Checks that a line follows this head, and gives the head after it.
    ///
    /// Checks the hash and the place of the number; what the record says is not its matter.
    pub fn follow(&self, line: &str) -> Result<Self, ChainError> {
        let bytes = line.as_bytes();
        let cut = bytes
            .len()
            .checked_sub(TAIL_LEN)
            .ok_or(ChainError::NoHash)?;
        let (body, tail) = bytes.split_at(cut);
        let tail = std::str::from_utf8(tail).map_err(|_| ChainError::NoHash)?;
        let written = tail
            .strip_prefix(MARK)
            .and_then(|rest| rest.strip_suffix("\"}"))
            .ok_or(ChainError::NoHash)?;
        let hash = chain(&self.hash, body);
        if written != hex(&hash) {
            return Err(ChainError::WrongHash);
        }
        Ok(Self {
            seq: self.seq + 1,
            hash,
        })
    }
}

/// What every signed message of a checkpoint begins with.
const CHECKPOINT_DOMAIN: &[u8] = b"bx-checkpoint-v1\0";

/// The head of a chain at some moment, signed: a log that lacks this record was cut off since, or
/// is an older copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    /// The number of a record.
    pub seq: u64,
    /// Its hash, as 64 hex digits.
    pub hash: String,
    /// When it was signed.
    pub ts: String,
    /// The Ed25519 key to check the signature with, as 64 hex digits.
    pub key: String,
    /// The signature over [`Self::message`], as 128 hex digits.
    pub signature: String,
}

impl Checkpoint {
    /// What is signed: `"bx-checkpoint-v1\0" ‖ seq as 8 bytes, the highest first ‖ hash, 32 bytes`.
    pub fn message(head: &Head) -> Vec<u8> {
        let mut message = CHECKPOINT_DOMAIN.to_vec();
        message.extend_from_slice(&head.seq.to_be_bytes());
        message.extend_from_slice(&head.hash);
        message
    }
}

/// How a line breaks the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChainError {
    /// The line does not end in a hash.
    #[error("the line does not end in a hash")]
    NoHash,
    /// The hash is not the one that follows from the record before.
    #[error("the hash is not that of this line after the one before")]
    WrongHash,
}

fn chain(before: &[u8; 32], body: &[u8]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    hasher.update(AUDIT_DOMAIN);
    hasher.update(before);
    hasher.update(body);
    hasher.finalize().into()
}

/// The SHA-256 of some bytes, as hex.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// The SHA-256 of bytes that come one piece after another.
#[derive(Debug, Clone, Default)]
pub struct Hasher(Sha256);

impl Hasher {
    /// Adds a piece.
    pub fn update(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    /// The hash of all pieces, as hex.
    pub fn hex(self) -> String {
        hex(&self.0.finalize())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_byte_is_found() {
        let (first, head) = Head::GENESIS.seal(r#"{"v":1,"seq":1"#);
        assert_eq!(Head::GENESIS.follow(&first), Ok(head));
        let (second, _) = head.seal(r#"{"v":1,"seq":2"#);
        assert!(Head::GENESIS.follow(&second).is_err());
        for at in 0..first.len() {
            let mut bytes = first.clone().into_bytes();
            bytes[at] ^= 1;
            let flipped = String::from_utf8(bytes).unwrap();
            assert!(Head::GENESIS.follow(&flipped).is_err(), "byte {at}");
        }
    }
}
