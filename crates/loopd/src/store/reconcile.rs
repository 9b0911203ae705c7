//! Puts one transcript file right: from the journal where the journal has what it lacks, else by
//! keeping what is sound.
//!
//! Knows the file and nothing of the database. What it takes out of a file it keeps beside it.

use super::files;
use super::rows::Piece;
use crate::session::{Scan, Summary, scan};
use bxcore::id::SessionId;
use bxkit::fsx::careful;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The largest transcript, in bytes.
pub(super) const MAX_TRANSCRIPT_BYTES: u64 = 512 * 1024 * 1024;
/// How many pieces taken out of one transcript are kept beside it.
const MAX_TORN_FILES: u32 = 10_000;
/// How many entries a transcript may have lost and still be used: the one that a write was cut in.
const MAX_LOST_ENTRIES: u64 = 1;

/// How far what a file holds can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    /// What is read back is what is on the disk.
    Whole,
    /// Only up to the first journal row: a sync failed, and what is read back may never have
    /// reached the disk.
    UpToJournal,
}

/// What became of a file that was held against the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Completion {
    /// It has everything now.
    Done {
        /// How many bytes were added.
        added: u64,
        /// What was in their place, and where it is now.
        set_aside: Option<(PathBuf, u64)>,
    },
    /// It ends before the first journal row, so that something in between is missing.
    TooShort {
        /// How long it is.
        file_bytes: u64,
    },
}

/// Adds to a file what it lacks of the journal's rows, which follow one another without a gap.
///
/// Nothing is synced here: the rows stay in the journal until the file is, and a start after a crash
/// in the middle of a crowd would wait for as many syncs as there are sessions.
pub(super) fn complete(path: &Path, pieces: &[Piece], trust: Trust) -> io::Result<Completion> {
    let base = pieces.first().map_or(0, |piece| piece.first_byte);
    if base == 0
        && let Some(folder) = path.parent()
    {
        files::make_folder(folder)?;
    }
    let opened = careful()
        .read(true)
        .write(true)
        .create(base == 0)
        .truncate(false)
        .mode(0o600)
        .open(path);
    let mut file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Completion::TooShort { file_bytes: 0 });
        }
        Err(error) => return Err(error),
    };
    let file_bytes = file.metadata()?.len();
    if file_bytes < base {
        return Ok(Completion::TooShort { file_bytes });
    }
    if trust == Trust::UpToJournal {
        file.set_len(base)?;
    }
    let text: String = pieces.iter().map(|piece| piece.text.as_str()).collect();
    add_missing(path, &mut file, base, text.as_bytes())
}

fn add_missing(path: &Path, file: &mut File, base: u64, text: &[u8]) -> io::Result<Completion> {
    file.seek(SeekFrom::Start(base))?;
    let mut there = Vec::new();
    Read::by_ref(file)
        .take(text.len() as u64)
        .read_to_end(&mut there)?;
    let same = there.iter().zip(text).take_while(|(a, b)| a == b).count();
    let end = base + same as u64;
    let mut set_aside = None;
    if same < text.len() {
        let rest = file.metadata()?.len().saturating_sub(end);
        if rest > 0 {
            set_aside = Some((cut_off(path, file, end)?, rest));
        }
        file.seek(SeekFrom::Start(end))?;
        file.write_all(&text[same..])?;
    }
    Ok(Completion::Done {
        added: (text.len() - same) as u64,
        set_aside,
    })
}

/// Moves everything from `end` on into a file of its own, which is on the disk before it is cut.
fn cut_off(path: &Path, file: &mut File, end: u64) -> io::Result<PathBuf> {
    let mut rest = Vec::new();
    file.seek(SeekFrom::Start(end))?;
    Read::by_ref(file)
        .take(MAX_TRANSCRIPT_BYTES)
        .read_to_end(&mut rest)?;
    let to = keep_beside(path, &rest)?;
    file.set_len(end)?;
    file.sync_all()?;
    Ok(to)
}

/// Keeps bytes in the first free `log.jsonl.torn-<n>`.
pub(super) fn keep_beside(path: &Path, bytes: &[u8]) -> io::Result<PathBuf> {
    if let Some(folder) = path.parent() {
        files::make_folder(folder)?;
    }
    for number in 1..=MAX_TORN_FILES {
        let to = path.with_file_name(format!("{}{number}", files::SET_ASIDE_PREFIX));
        let created = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&to);
        match created {
            Ok(mut file) => {
                file.write_all(bytes)?;
                file.sync_all()?;
                return Ok(to);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// A transcript that was read by itself, without a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Salvaged {
    /// It can be used.
    Sound {
        /// What it says.
        summary: Box<Summary>,
        /// How long it is now.
        bytes: u64,
        /// What was at its end, and where it is now.
        set_aside: Option<(PathBuf, u64)>,
    },
    /// It can't, and was left as it is.
    Broken(String),
}

/// Reads a whole file, keeps what is sound, and moves a torn last line aside.
///
/// `known` is how many entries the index knows of. A file that lacks more than the last of them was
/// not torn by a crash, and is left to a person.
pub(super) fn salvage(
    session: &SessionId,
    path: &Path,
    known: Option<u64>,
) -> io::Result<Salvaged> {
    let mut file = match careful().read(true).write(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Salvaged::Broken("its file is gone".to_owned()));
        }
        Err(error) => return Err(error),
    };
    let length = file.metadata()?.len();
    if length > MAX_TRANSCRIPT_BYTES {
        let why = format!("it has {length} bytes; the limit is {MAX_TRANSCRIPT_BYTES}");
        return Ok(Salvaged::Broken(why));
    }
    let mut bytes = Vec::new();
    Read::by_ref(&mut file)
        .take(MAX_TRANSCRIPT_BYTES)
        .read_to_end(&mut bytes)?;
    let mut summary = Summary::default();
    let found = scan(session, &bytes, |line| summary.add(&line));
    if let Some(why) = unusable(&found, known) {
        return Ok(Salvaged::Broken(why));
    }
    let mut end = found.good_bytes as u64;
    let mut set_aside = None;
    if found.fault.is_some() {
        let rest = (bytes.len() - found.good_bytes) as u64;
        set_aside = Some((cut_off(path, &mut file, end)?, rest));
    } else if found.unended {
        file.seek(SeekFrom::End(0))?;
        file.write_all(b"\n")?;
        end += 1;
    }
    file.sync_all()?;
    Ok(Salvaged::Sound {
        summary: Box::new(summary),
        bytes: end,
        set_aside,
    })
}

/// Why what was found can't stand for the session, if it can't.
fn unusable(found: &Scan, known: Option<u64>) -> Option<String> {
    match &found.fault {
        Some(fault) if !fault.torn => return Some(fault.to_string()),
        _ => {}
    }
    if found.entries == 0 {
        return Some("it holds no entry".to_owned());
    }
    let known = known.unwrap_or(0);
    let lost = known.saturating_sub(found.entries);
    (lost > MAX_LOST_ENTRIES).then(|| format!("it has {} of {known} entries", found.entries))
}

#[cfg(test)]
mod tests;
