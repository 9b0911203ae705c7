//! From the text of a file to its entries, and back. No byte is lost on the way.

use super::marker::{END_LINE, LineKind, Marker, MarkerError, line_kind};
use bxcore::id::EntryId;
use bxcore::label::Label;
use bxcore::memory::{MemoryEntry, Writer};
use bxcore::text::hex;
use jiff::Timestamp;
use sha2::{Digest, Sha256};
use std::collections::HashSet;

/// How many hex digits of a hash make an id: enough that two rarely clash, few enough to copy.
const ID_DIGITS: usize = 8;

/// A memory file as it was read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct File {
    pub(super) pieces: Vec<Piece>,
}

/// A stretch of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Its bytes as they stand in the file.
    pub(super) raw: String,
    pub(super) body: Body,
}

/// What a stretch is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Body {
    /// White space.
    Gap,
    /// An entry whose marker says the same as this.
    Marked(Marker, String),
    /// An entry that gets this marker at the next write: it has none yet, or one whose id is taken.
    Unmarked(Marker, String),
    /// Looks like an entry and can't be read as one.
    Broken(&'static str),
}

impl File {
    /// Reads a file. `changed` is when it was written last: the time of what has none.
    pub fn parse(text: &str, changed: Timestamp) -> Self {
        let mut reader = Reader::default();
        for line in text.split_inclusive('\n') {
            reader.take(line);
        }
        let mut file = Self {
            pieces: reader.finish(changed),
        };
        file.give_ids();
        file
    }

    /// The text to write: what was read, with a marker around everything that can have one.
    pub fn render(&self) -> String {
        self.pieces.iter().map(Piece::rendered).collect()
    }

    /// Every entry, in the order of the file.
    pub fn entries(&self) -> Vec<MemoryEntry> {
        self.pieces.iter().filter_map(Piece::entry).collect()
    }

    /// The ids that are taken.
    pub(super) fn ids(&self) -> HashSet<EntryId> {
        let ids = self.pieces.iter().filter_map(Piece::marker);
        ids.map(|marker| marker.id.clone()).collect()
    }

    /// Gives an id to what a person wrote without one, and another to each copy of an id.
    ///
    /// It is made from the text alone, so that it is the same at each reading until it is written.
    fn give_ids(&mut self) {
        let mut taken = HashSet::new();
        for piece in &mut self.pieces {
            let Body::Marked(marker, text) = &piece.body else {
                continue;
            };
            if !taken.insert(marker.id.clone()) {
                piece.body = Body::Unmarked(marker.clone(), text.clone());
            }
        }
        for piece in &mut self.pieces {
            if let Body::Unmarked(marker, text) = &mut piece.body {
                marker.id = fresh_id(&[text], &taken);
                taken.insert(marker.id.clone());
            }
        }
    }
}

/// An id made from these words that is not taken.
pub(super) fn fresh_id(words: &[&str], taken: &HashSet<EntryId>) -> EntryId {
    let found = (0..=u64::MAX).find_map(|round| {
        let id = numbered_id(words, round)?;
        (!taken.contains(&id)).then_some(id)
    });
    // A file has far fewer entries than there are ids.
    found.unwrap_or_else(|| unreachable!("more ids are taken than there are"))
}

/// The id that these words give first.
pub(super) fn first_id(words: &[&str]) -> Option<EntryId> {
    numbered_id(words, 0)
}

fn numbered_id(words: &[&str], round: u64) -> Option<EntryId> {
    let mut hash = Sha256::new();
    hash.update(round.to_be_bytes());
    for word in words {
        // With its length, so that no two lists of words give the same bytes.
        hash.update(word.len().to_be_bytes());
        hash.update(word.as_bytes());
    }
    let digits = hex(&hash.finalize());
    EntryId::new(format!("m{}", digits.get(..ID_DIGITS)?)).ok()
}

impl Piece {
    pub(super) fn unmarked(marker: Marker, text: String) -> Self {
        Self {
            raw: String::new(),
            body: Body::Unmarked(marker, text),
        }
    }

    pub(super) fn gap(raw: &str) -> Self {
        Self {
            raw: raw.to_owned(),
            body: Body::Gap,
        }
    }

    pub(super) fn marker(&self) -> Option<&Marker> {
        match &self.body {
            Body::Marked(marker, _) | Body::Unmarked(marker, _) => Some(marker),
            Body::Gap | Body::Broken(_) => None,
        }
    }

    fn rendered(&self) -> String {
        match &self.body {
            Body::Unmarked(marker, text) => format!("{marker}\n{text}\n{END_LINE}\n"),
            Body::Gap | Body::Marked(..) | Body::Broken(_) => self.raw.clone(),
        }
    }

    fn entry(&self) -> Option<MemoryEntry> {
        match &self.body {
            Body::Gap => None,
            Body::Marked(marker, text) | Body::Unmarked(marker, text) => Some(MemoryEntry {
                id: Some(marker.id.clone()),
                time: marker.time.to_string(),
                writer: Some(marker.writer.clone()),
                label: marker.label,
                text: text.clone(),
                trouble: None,
            }),
            Body::Broken(why) => Some(MemoryEntry {
                id: None,
                time: String::new(),
                writer: None,
                label: Label::TOP,
                text: self.raw.trim().to_owned(),
                trouble: Some((*why).to_owned()),
            }),
        }
    }
}

/// What was read since the last piece ended.
#[derive(Debug, Default)]
struct Reader {
    pieces: Vec<(String, Read)>,
    raw: String,
    text: String,
    state: State,
}

#[derive(Debug, Default)]
enum State {
    /// Between entries: what is here is the owner's.
    #[default]
    Outside,
    /// Behind a marker.
    Within(Marker),
    /// Behind a line that was meant as a marker.
    Broken(MarkerError),
}

#[derive(Debug)]
enum Read {
    ByHand(String),
    Entry(Marker, String),
    Broken(&'static str),
}

impl Reader {
    fn take(&mut self, line: &str) {
        match line_kind(line) {
            LineKind::Text => {
                self.raw.push_str(line);
                self.text.push_str(line);
            }
            LineKind::Begin(marker) => self.begin(State::Within(marker), line),
            LineKind::Unreadable(error) => self.begin(State::Broken(error), line),
            LineKind::End => self.end(line),
        }
    }

    fn begin(&mut self, next: State, line: &str) {
        self.close_open();
        self.state = next;
        self.raw.push_str(line);
    }

    fn end(&mut self, line: &str) {
        self.raw.push_str(line);
        let text = std::mem::take(&mut self.text);
        let read = match std::mem::take(&mut self.state) {
            State::Within(marker) => Read::Entry(marker, trimmed(&text)),
            State::Broken(error) => Read::Broken(why(error)),
            // Its beginning is gone, and with it what its label was.
            State::Outside => Read::Broken("the line before it is gone"),
        };
        self.push(read);
    }

    /// Closes what no line closed.
    fn close_open(&mut self) {
        let text = std::mem::take(&mut self.text);
        let read = match std::mem::take(&mut self.state) {
            State::Outside => Read::ByHand(text),
            State::Within(_) => Read::Broken("the line behind it is gone"),
            State::Broken(error) => Read::Broken(why(error)),
        };
        self.push(read);
    }

    fn push(&mut self, read: Read) {
        let raw = std::mem::take(&mut self.raw);
        if !raw.is_empty() {
            self.pieces.push((raw, read));
        }
    }

    fn finish(mut self, changed: Timestamp) -> Vec<Piece> {
        self.close_open();
        let mut pieces = Vec::with_capacity(self.pieces.len());
        for (raw, read) in self.pieces {
            match read {
                Read::Entry(marker, text) => pieces.push(Piece {
                    raw,
                    body: Body::Marked(marker, text),
                }),
                Read::Broken(why) => pieces.push(Piece {
                    raw,
                    body: Body::Broken(why),
                }),
                Read::ByHand(text) => by_hand(&text, changed, &mut pieces),
            }
        }
        pieces
    }
}

/// What a person wrote between entries, with the white space around it.
fn by_hand(text: &str, changed: Timestamp, pieces: &mut Vec<Piece>) {
    let kept = trimmed(text);
    if kept.is_empty() {
        pieces.push(Piece::gap(text));
        return;
    }
    let from = text.find(&kept).unwrap_or_default();
    let (before, rest) = text.split_at(from);
    let (raw, after) = rest.split_at(kept.len());
    if !before.is_empty() {
        pieces.push(Piece::gap(before));
    }
    // The end of its last line belongs to it: a marker ends with one, too.
    let (line_end, after) = after.split_at(usize::from(after.starts_with('\n')));
    let marker = Marker {
        // Given once the ids of all others are known.
        id: fresh_id(&[&kept], &HashSet::new()),
        time: changed,
        writer: Writer::Owner,
        label: Label::OWNER,
    };
    pieces.push(Piece {
        raw: format!("{raw}{line_end}"),
        body: Body::Unmarked(marker, kept),
    });
    if !after.is_empty() {
        pieces.push(Piece::gap(after));
    }
}

/// A text without empty lines at its ends and white space at its very end.
fn trimmed(text: &str) -> String {
    let text = text.trim_end();
    let start = text.len() - text.trim_start().len();
    // The first line keeps its indentation: it may be a list or code.
    let start = text[..start].rfind('\n').map_or(0, |at| at + 1);
    text[start..].to_owned()
}

fn why(error: MarkerError) -> &'static str {
    match error {
        MarkerError::Torn => "the line before it is torn",
        MarkerError::TooLong => "the line before it is too long",
        MarkerError::Part => "a part of the line before it can't be read",
        MarkerError::Missing => "the line before it lacks id, time, by or label",
    }
}

#[cfg(test)]
mod tests;
