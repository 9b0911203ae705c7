//! Changes of a file. Whatever they don't touch stays as it is, byte for byte.

use super::limits::{MAX_ENTRIES, MAX_FILE_BYTES};
use super::marker::{Marker, without_markers};
use super::parse::{Body, File, Piece, first_id, fresh_id};
use bxcore::id::{CallId, EntryId, SessionId};
use bxcore::label::Label;
use bxcore::memory::{MAX_ENTRY_BYTES, Writer};
use bxcore::text::neutralise;
use jiff::Timestamp;

/// Why a file was not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// No entry has this id.
    #[error("there is no entry `{0}`")]
    Unknown(EntryId),
    /// There is nothing in the text.
    #[error("the text is empty")]
    Empty,
    /// The text is too long.
    #[error("the text is {bytes} bytes long; an entry may have {MAX_ENTRY_BYTES}")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// The file would be too long, or have too many entries.
    #[error("the file is full: it may have {MAX_ENTRIES} entries and {MAX_FILE_BYTES} bytes")]
    Full,
}

/// Who changes a file: which session, in which of its calls, with which label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Editor {
    /// The session.
    pub session: SessionId,
    /// Its number for the call. The same call again changes nothing more.
    pub call: CallId,
    /// The session's label.
    pub label: Label,
    /// When.
    pub now: Timestamp,
}

impl File {
    /// Adds an entry at the end, and gives its id.
    ///
    /// # Errors
    /// The text is empty or too long, or the file is full.
    pub fn add(&mut self, text: &str, by: &Editor) -> Result<EntryId, EditError> {
        let text = kept(text)?;
        let call = by.call.to_string();
        let words = [by.session.as_str(), &call, &text];
        if let Some(id) = first_id(&words).filter(|id| self.has(id, by, &text)) {
            // The call was made before, and its answer lost.
            return Ok(id);
        }
        if self.ids().len() >= MAX_ENTRIES {
            return Err(EditError::Full);
        }
        let marker = by.marker(fresh_id(&words, &self.ids()), by.label);
        let id = marker.id.clone();
        let before = self.pieces.len();
        self.end_line();
        self.pieces.push(Piece::unmarked(marker, text));
        if self.render().len() > MAX_FILE_BYTES {
            self.pieces.truncate(before);
            return Err(EditError::Full);
        }
        Ok(id)
    }

    /// Puts another text in an entry's place. Its label only rises: what was untrusted stays so.
    ///
    /// # Errors
    /// There is no such entry; or as for [`File::add`].
    pub fn replace(&mut self, id: &EntryId, text: &str, by: &Editor) -> Result<Label, EditError> {
        let text = kept(text)?;
        let piece = self.find(id)?;
        let label = piece
            .marker()
            .map_or(Label::TOP, |old| old.label)
            .join(by.label);
        let new = Piece::unmarked(by.marker(id.clone(), label), text);
        let old = std::mem::replace(piece, new);
        if self.render().len() > MAX_FILE_BYTES {
            *self.find(id)? = old;
            return Err(EditError::Full);
        }
        Ok(label)
    }

    /// Takes an entry out.
    ///
    /// # Errors
    /// There is no such entry.
    pub fn remove(&mut self, id: &EntryId) -> Result<(), EditError> {
        *self.find(id)? = Piece::gap("");
        Ok(())
    }

    /// The label of an entry.
    ///
    /// # Errors
    /// There is no such entry.
    pub fn label_of(&self, id: &EntryId) -> Result<Label, EditError> {
        let marker = self.pieces.iter().filter_map(Piece::marker);
        let mut labels = marker
            .filter(|marker| marker.id == *id)
            .map(|marker| marker.label);
        labels.next().ok_or_else(|| EditError::Unknown(id.clone()))
    }

    fn find(&mut self, id: &EntryId) -> Result<&mut Piece, EditError> {
        let is_it = |piece: &&mut Piece| piece.marker().is_some_and(|marker| marker.id == *id);
        let mut pieces = self.pieces.iter_mut();
        pieces
            .find(is_it)
            .ok_or_else(|| EditError::Unknown(id.clone()))
    }

    fn has(&self, id: &EntryId, by: &Editor, text: &str) -> bool {
        let writer = Writer::Session(by.session.clone());
        self.pieces.iter().any(|piece| match &piece.body {
            Body::Marked(marker, held) | Body::Unmarked(marker, held) => {
                marker.id == *id && marker.writer == writer && held == text
            }
            Body::Gap | Body::Broken(_) => false,
        })
    }

    /// Sees to it that what is added begins on a line of its own, behind an empty one.
    ///
    /// An entry that is not closed would swallow what comes behind it, were it not that a marker
    /// ends it.
    fn end_line(&mut self) {
        let text = self.render();
        let missing = match text.as_str() {
            "" => return,
            text if text.ends_with("\n\n") => return,
            text if text.ends_with('\n') => "\n",
            _ => "\n\n",
        };
        self.pieces.push(Piece::gap(missing));
    }
}

impl Editor {
    fn marker(&self, id: EntryId, label: Label) -> Marker {
        Marker {
            id,
            time: self.now,
            writer: Writer::Session(self.session.clone()),
            label,
        }
    }
}

/// A text as it is kept: nothing in it can pass for a marker, here or in a prompt.
fn kept(text: &str) -> Result<String, EditError> {
    let text = text.replace("\r\n", "\n");
    let text = neutralise(&text);
    let text = without_markers(&text);
    let text = text.trim();
    match text.len() {
        0 => Err(EditError::Empty),
        bytes if bytes > MAX_ENTRY_BYTES => Err(EditError::TooLong { bytes }),
        _ => Ok(text.to_owned()),
    }
}

#[cfg(test)]
mod tests;
