//! Going over files, with a bound on everything: files, bytes, depth, time. Follows no links.

use super::hits::Hits;
use crate::tools::workspaces::Opened;
use rustix::fs::Dir;
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

const MAX_FILES: usize = 20_000;
const MAX_TOTAL_BYTES: u64 = 256 * 1024 * 1024;
const MAX_FILE_BYTES: u64 = 8 * 1024 * 1024;
const MAX_DEPTH: usize = 32;
/// The most entries of one folder that are looked at.
const MAX_FOLDER_ENTRIES: usize = 20_000;
/// How far into a file a zero byte makes it binary, in bytes.
const BINARY_WITHIN_BYTES: usize = 8 * 1024;

/// A search under way.
pub(super) struct Scan {
    hits: Hits,
    deadline: Instant,
    bytes: u64,
    buffer: Vec<u8>,
    hidden: Vec<String>,
}

/// A folder that is still to be looked through.
struct Waiting {
    parent: Arc<OwnedFd>,
    name: CString,
    path: String,
    depth: usize,
}

impl Scan {
    pub(super) fn new(hits: Hits, deadline: Instant) -> Self {
        Self {
            hits,
            deadline,
            bytes: 0,
            buffer: Vec::new(),
            hidden: Vec::new(),
        }
    }

    /// Leaves out what the session can't see in its own folder, since a folder of the owner's has
    /// the same name.
    pub(super) fn hide_at_top<'a>(&mut self, names: impl Iterator<Item = &'a str>) {
        self.hidden = names.map(str::to_owned).collect();
    }

    pub(super) fn finish(self) -> Hits {
        self.hits
    }

    /// Whether nothing more is to be read; notes why.
    fn is_over(&mut self) -> bool {
        let why = if self.hits.files >= MAX_FILES {
            "there are too many files"
        } else if self.bytes >= MAX_TOTAL_BYTES {
            "there is too much to read"
        } else if Instant::now() >= self.deadline {
            "it took too long"
        } else if self.hits.is_full() {
            "there may be more hits"
        } else {
            return false;
        };
        self.hits.cut(why);
        true
    }

    /// Looks through one file.
    pub(super) fn file(&mut self, file: File, path: &str) {
        if self.is_over() {
            return;
        }
        self.buffer.clear();
        let read = file.take(MAX_FILE_BYTES + 1).read_to_end(&mut self.buffer);
        if read.is_err() {
            return self.hits.cut("some files can't be read");
        }
        self.bytes += self.buffer.len() as u64;
        if self.buffer.len() as u64 > MAX_FILE_BYTES {
            self.buffer
                .truncate(usize::try_from(MAX_FILE_BYTES).unwrap_or(usize::MAX));
            self.hits.cut("of files over 8 MiB, only the start");
        }
        let start = &self.buffer[..self.buffer.len().min(BINARY_WITHIN_BYTES)];
        if start.contains(&0) {
            return;
        }
        let content = std::mem::take(&mut self.buffer);
        self.hits.look(path, &content);
        self.buffer = content;
    }

    /// Looks through everything below a folder.
    pub(super) fn folder(&mut self, folder: OwnedFd, path: &str) {
        // A stack of our own: how deep folders nest is up to whoever made them. It holds names,
        // opened one at a time: how many a folder has is up to them too.
        let mut waiting = Vec::new();
        self.entries(&Arc::new(folder), path, 0, &mut waiting);
        while let Some(folder) = waiting.pop() {
            if self.is_over() {
                return;
            }
            match Opened::entry(folder.parent.as_fd(), &folder.name) {
                Ok(Opened::Folder(fd)) => {
                    self.entries(&Arc::new(fd), &folder.path, folder.depth, &mut waiting);
                }
                // It was a folder a moment ago; whatever it is now is not searched.
                Ok(_) | Err(Errno::NOENT) => {}
                Err(_) => self.hits.cut("some folders can't be read"),
            }
        }
    }

    /// Looks through the files in a folder, and puts the folders in it on the stack.
    fn entries(
        &mut self,
        folder: &Arc<OwnedFd>,
        path: &str,
        depth: usize,
        waiting: &mut Vec<Waiting>,
    ) {
        let mut below = Vec::new();
        for name in self.names(folder) {
            if self.is_over() {
                return;
            }
            let shown = name.to_string_lossy();
            if path.is_empty() && self.hidden.iter().any(|hidden| *hidden == shown) {
                continue;
            }
            let inner = if path.is_empty() {
                shown.into_owned()
            } else {
                format!("{path}/{shown}")
            };
            match Opened::entry(folder.as_fd(), &name) {
                Ok(Opened::File { file, .. }) => self.file(file, &inner),
                Ok(Opened::Folder(_)) if depth >= MAX_DEPTH => {
                    self.hits.cut("some folders lie too deep");
                }
                Ok(Opened::Folder(_)) => {
                    let parent = Arc::clone(folder);
                    below.push(Waiting {
                        parent,
                        name,
                        path: inner,
                        depth: depth + 1,
                    });
                }
                // A link or a device is no file of the workspace; a vanished one is none at all.
                Ok(Opened::Other(_)) | Err(Errno::NOENT) => {}
                Err(_) => self.hits.cut("some files can't be read"),
            }
        }
        waiting.extend(below.into_iter().rev());
    }

    /// The names in a folder, sorted, so that the same search gives the same hits.
    fn names(&mut self, folder: &Arc<OwnedFd>) -> BTreeSet<CString> {
        let mut names = BTreeSet::new();
        let Ok(entries) = Dir::read_from(folder.as_fd()) else {
            self.hits.cut("some folders can't be read");
            return names;
        };
        for entry in entries {
            let Ok(entry) = entry else { break };
            if names.len() >= MAX_FOLDER_ENTRIES {
                self.hits.cut("some folders have too many entries");
                break;
            }
            if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
                names.insert(entry.file_name().to_owned());
            }
        }
        names
    }
}
