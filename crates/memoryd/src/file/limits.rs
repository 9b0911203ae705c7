//! How much a memory file may hold.

/// The largest memory file that is read or written, in bytes.
pub const MAX_FILE_BYTES: usize = 256 * 1024;
/// The most entries of one file that a session may bring about.
pub const MAX_ENTRIES: usize = 2_000;
