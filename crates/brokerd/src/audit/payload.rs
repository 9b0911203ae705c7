//! Bodies that are too large for a record: files named by their hash.

use std::io;
use std::path::Path;

/// The folder of payload files, within the log's.
pub(super) const FOLDER: &str = "payloads";

/// Writes and syncs a body's file, so that no record can name one that is not there.
pub(super) fn write(log: &Path, sha256: &str, body: &[u8]) -> io::Result<()> {
    let path = log.join(FOLDER).join(sha256);
    // A file of that name may be a torn one from before a crash, so its content is compared.
    if std::fs::read(&path).is_ok_and(|there| there == body) {
        return Ok(());
    }
    bxkit::fsx::write_atomic(&path, body, 0o600)
}
