//! The segments of a log, in order.

use super::error::AuditFault;
use std::path::{Path, PathBuf};

/// The most segments that a log may have.
pub const MAX_SEGMENTS: usize = 999_999;

/// The segment files of a log's folder, oldest first: `[0-9]*.jsonl` by name.
///
/// # Errors
/// The folder can't be read, or holds more than [`MAX_SEGMENTS`].
pub fn segments(folder: &Path) -> Result<Vec<PathBuf>, AuditFault> {
    let failed = |source| AuditFault::Unreadable {
        path: folder.to_owned(),
        source,
    };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if is_segment(&path) {
            found.push(path);
        }
        if found.len() > MAX_SEGMENTS {
            return Err(AuditFault::TooManySegments {
                path: folder.to_owned(),
                max: MAX_SEGMENTS,
            });
        }
    }
    found.sort();
    Ok(found)
}

fn is_segment(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    name.first().is_some_and(u8::is_ascii_digit) && name.ends_with(b".jsonl")
}

/// A path's file name for a message.
pub(super) fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
}
