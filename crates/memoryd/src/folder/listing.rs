//! Which files there are in the memory folder.

use super::error::FolderError;
use super::open::{Folder, Stamp};
use bxcore::id::{MEMORY_FILE_ENDING, MemoryFile};
use bxcore::text::cap;
use bxcore::wire::memoryd::{MemoryFileEntries, MemoryListing, UnusableMemory};
use std::collections::BTreeMap;

/// The most memory files.
pub const MAX_FILES: usize = 64;
/// The most names of the folder that are looked at.
pub const MAX_FOLDER_NAMES: usize = 4_096;
/// How much of a name that is none of ours is shown, in bytes.
const MAX_SHOWN_NAME_BYTES: usize = 80;

/// What there is in the folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// The files, the identity first, then the notes, then the others by name.
    pub files: Vec<(MemoryFile, Stamp)>,
    /// What looks like a memory file and can't be one.
    pub unusable: Vec<UnusableMemory>,
}

impl Folder {
    /// Looks what there is, without reading it.
    ///
    /// # Errors
    /// The folder can't be read.
    pub fn look(&self) -> Result<Found, FolderError> {
        let failed = |source| FolderError::System {
            path: self.path.clone(),
            what: "read",
            source,
        };
        let mut found = Found::default();
        let mut files = BTreeMap::new();
        let folder = std::fs::read_dir(&self.path).map_err(failed)?;
        for entry in folder.take(MAX_FOLDER_NAMES) {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            // What an editor keeps beside a file is no memory.
            let Some(stem) = name
                .to_string_lossy()
                .strip_suffix(MEMORY_FILE_ENDING)
                .filter(|name| !name.starts_with(['.', '#']))
                .map(str::to_owned)
            else {
                continue;
            };
            match (MemoryFile::new(stem), entry.metadata()) {
                (Ok(file), Ok(metadata)) => {
                    files.insert(file, Stamp::of(&metadata));
                }
                (Err(_), _) => found.unusable.push(UnusableMemory {
                    name: cap(&name.to_string_lossy(), MAX_SHOWN_NAME_BYTES).to_owned(),
                    why: "its name has other characters than a-z, 0-9 and -, or is too long"
                        .to_owned(),
                }),
                // It is gone again.
                (_, Err(_)) => {}
            }
        }
        for first in [MemoryFile::identity(), MemoryFile::notes()] {
            found.files.extend(files.remove_entry(&first));
        }
        found.files.extend(files);
        for (file, _) in found.files.drain(found.files.len().min(MAX_FILES)..) {
            found.unusable.push(UnusableMemory {
                name: file.file_name(),
                why: format!("there are more than {MAX_FILES} files"),
            });
        }
        Ok(found)
    }

    /// Reads all files, or the one that is named.
    ///
    /// # Errors
    /// The folder can't be read. Of a file that can't be, the list says so.
    pub fn list(&self, only: Option<&MemoryFile>) -> Result<MemoryListing, FolderError> {
        let found = self.look()?;
        let mut listing = MemoryListing {
            folder: self.path.display().to_string(),
            files: Vec::new(),
            unusable: found.unusable,
        };
        let wanted = |file: &MemoryFile| only.is_none_or(|only| only == file);
        for (file, _) in found.files.into_iter().filter(|(file, _)| wanted(file)) {
            match self.read(&file) {
                Ok(loaded) => listing.files.push(MemoryFileEntries {
                    file,
                    entries: loaded.file.entries(),
                }),
                Err(error) => listing.unusable.push(UnusableMemory {
                    name: file.file_name(),
                    why: match error {
                        FolderError::Unusable { why, .. } => why.to_owned(),
                        other => bxkit::report::chain(&other),
                    },
                }),
            }
        }
        Ok(listing)
    }

    /// Whether a file that is not there yet may be made.
    pub(super) fn room_for(&self, name: &MemoryFile) -> Result<(), FolderError> {
        let others = self.look()?.files;
        let others = others.iter().filter(|(file, _)| file != name).count();
        if others >= MAX_FILES {
            return Err(FolderError::TooManyFiles { max: MAX_FILES });
        }
        Ok(())
    }
}
