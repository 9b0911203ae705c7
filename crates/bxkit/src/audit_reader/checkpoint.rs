//! Checkpoints: read, and checked by their signature.

use super::verify::Expected;
use crate::fsx;
use bxcore::audit::{Checkpoint, Head};
use ed25519_dalek::{Signature, VerifyingKey};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;

/// The name of the file of checkpoints, in the log's folder.
pub const CHECKPOINT_FILE: &str = "checkpoints.jsonl";
/// The name of the file with the key that signs them, in the log's folder.
pub const KEY_FILE: &str = "checkpoint.key";
/// How much of the end of that file is looked at, in bytes: more than a hundred lines.
const MAX_TAIL_BYTES: u64 = 64 * 1024;

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

/// The last checkpoint beside a log: the last line that is one and whose signature holds.
///
/// What else stands there is passed over, since a crash can leave half a line, or a file without
/// any. Nothing is lost by that: the same checkpoints are in the chain and in brokerd's database,
/// and whoever could spoil a line here could take it away as well.
///
/// # Errors
/// The file is there, and is no regular file or can't be read.
pub fn last_checkpoint(folder: &Path) -> io::Result<Option<Checkpoint>> {
    let tail = match tail_of(&folder.join(CHECKPOINT_FILE)) {
        Ok(tail) => tail,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut lines = tail.rsplit(|byte| *byte == b'\n');
    Ok(lines.find_map(|line| {
        let checkpoint = serde_json::from_slice(line).ok()?;
        check_signature(&checkpoint).ok()?;
        Some(checkpoint)
    }))
}

/// The end of a file. Its first line may be cut; that is then no checkpoint.
fn tail_of(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = fsx::open_regular(path)?;
    let from = file.metadata()?.len().saturating_sub(MAX_TAIL_BYTES);
    file.seek(SeekFrom::Start(from))?;
    let mut tail = Vec::new();
    file.take(MAX_TAIL_BYTES).read_to_end(&mut tail)?;
    Ok(tail)
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
