//! Checkpoints: read, and checked by their signature.

use super::verify::Expected;
use bxcore::audit::{Checkpoint, Head};
use ed25519_dalek::{Signature, VerifyingKey};

/// The name of the file of checkpoints, in the log's folder.
pub const CHECKPOINT_FILE: &str = "checkpoints.jsonl";

/// Why a checkpoint is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointError {
    /// It is not what `audit checkpoint` writes.
    #[error("it is not a checkpoint: {0}")]
    Malformed(String),
    /// The signature is not that of this record by this key.
    #[error("its signature does not hold")]
    Signature,
}

/// Reads the last checkpoint of a text with one on each line, and checks its signature.
///
/// # Errors
/// There is none, or it does not hold.
pub fn read_checkpoint(text: &str) -> Result<Checkpoint, CheckpointError> {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let last = lines.next_back().unwrap_or_default();
    let checkpoint: Checkpoint = serde_json::from_str(last)
        .map_err(|error| CheckpointError::Malformed(error.to_string()))?;
    check_signature(&checkpoint)?;
    Ok(checkpoint)
}

fn check_signature(checkpoint: &Checkpoint) -> Result<(), CheckpointError> {
    let head = Head {
        seq: checkpoint.seq,
        hash: bytes(&checkpoint.hash, "hash")?,
    };
    let key = VerifyingKey::from_bytes(&bytes(&checkpoint.key, "key")?)
        .map_err(|_| CheckpointError::Malformed("`key` is no key".to_owned()))?;
    let signature = Signature::from_bytes(&bytes(&checkpoint.signature, "signature")?);
    key.verify_strict(&Checkpoint::message(&head), &signature)
        .map_err(|_| CheckpointError::Signature)
}

/// A hex text of exactly this many bytes.
fn bytes<const N: usize>(text: &str, name: &str) -> Result<[u8; N], CheckpointError> {
    let wrong = || CheckpointError::Malformed(format!("`{name}` is not {} hex digits", 2 * N));
    if text.len() != 2 * N || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(wrong());
    }
    let mut bytes = [0; N];
    for (at, byte) in bytes.iter_mut().enumerate() {
        let pair = text.get(2 * at..2 * at + 2).ok_or_else(wrong)?;
        *byte = u8::from_str_radix(pair, 16).map_err(|_| wrong())?;
    }
    Ok(bytes)
}

impl From<&Checkpoint> for Expected {
    fn from(checkpoint: &Checkpoint) -> Self {
        Self {
            seq: checkpoint.seq,
            hash: checkpoint.hash.to_ascii_lowercase(),
        }
    }
}
