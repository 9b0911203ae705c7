//! Reads on in a transcript where it was left.

use super::transcript::{Listener, MAX_LINE_BYTES, Passage, Said};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

/// How much is read from the disk at once, in bytes.
const BUFFER_BYTES: usize = 256 * 1024;

/// Up to where a transcript was taken in, and what it had said there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Place {
    /// The end of the last turn that had ended, in bytes.
    pub(super) taken: u64,
    pub(super) said: Said,
}

/// Reads the turns that ended behind a place; each is given with the place behind it.
///
/// A line without its end is being written and is left for the next time.
pub(super) fn follow<E: From<io::Error>>(
    path: &Path,
    from: Place,
    mut turn: impl FnMut(Vec<Passage>, Place) -> Result<(), E>,
) -> Result<(), E> {
    let mut file = bxkit::fsx::careful().read(true).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::from(io::ErrorKind::InvalidInput).into());
    }
    file.seek(SeekFrom::Start(from.taken))?;
    let mut reader = BufReader::with_capacity(BUFFER_BYTES, file);
    let mut listener = Listener::resume(from.said);
    let mut at = from.taken;
    let mut line = Vec::new();
    loop {
        line.clear();
        let bytes = next_line(&mut reader, &mut line)?;
        if line.last() != Some(&b'\n') {
            // Or it is longer than any of ours, and what stands behind it is not searched.
            return Ok(());
        }
        at += bytes;
        let ended = match std::str::from_utf8(&line) {
            Ok(text) => listener.line(text.trim_end_matches(['\n', '\r'])),
            Err(_) => {
                listener.unreadable();
                None
            }
        };
        if let Some((passages, said)) = ended {
            turn(passages, Place { taken: at, said })?;
        }
    }
}

/// Reads a line of bounded length; gives how long it is.
fn next_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<u64> {
    let most = MAX_LINE_BYTES as u64 + 1;
    let read = reader.by_ref().take(most).read_until(b'\n', line)?;
    Ok(read as u64)
}
