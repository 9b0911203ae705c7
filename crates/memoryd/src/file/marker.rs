//! The comment lines around an entry.

use bxcore::id::EntryId;
use bxcore::label::Label;
use bxcore::memory::Writer;
use jiff::Timestamp;
use std::borrow::Cow;
use std::fmt;

/// How every marker begins, apart from white space.
const OPENING: &str = "<!--";
const CLOSING: &str = "-->";
const BEGIN_WORD: &str = "memory";
const END_WORD: &str = "/memory";
/// The longest line that is read as a marker, in bytes: four words of bounded length and some air.
const MAX_MARKER_BYTES: usize = 512;

/// The line behind an entry.
pub(super) const END_LINE: &str = "<!-- /memory -->";

/// What the line before an entry says of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marker {
    /// The entry's id.
    pub id: EntryId,
    /// When it was written.
    pub time: Timestamp,
    /// Who wrote it.
    pub writer: Writer,
    /// Its label.
    pub label: Label,
}

/// Why a line that looks like a marker is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MarkerError {
    /// It does not end, or goes on behind its end.
    #[error("its comment does not end with its line")]
    Torn,
    /// It is longer than any marker of ours.
    #[error("its line is too long")]
    TooLong,
    /// A part of it is no `word=value`, or stands in it twice, or is none that we know.
    #[error("a part of its line can't be read")]
    Part,
    /// It lacks one of the four.
    #[error("its line lacks id, time, by or label")]
    Missing,
}

/// What a line is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LineKind {
    Text,
    Begin(Marker),
    /// Meant as the beginning of an entry, or the torn rest of one.
    Unreadable(MarkerError),
    End,
}

impl fmt::Display for Marker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            id,
            time,
            writer,
            label,
        } = self;
        let class = label.class;
        let trust = if label.untrusted { ",untrusted" } else { "" };
        write!(
            f,
            "{OPENING} {BEGIN_WORD} id={id} time={time} by={writer} label={class}{trust} {CLOSING}"
        )
    }
}

/// Reads one line.
pub(super) fn line_kind(line: &str) -> LineKind {
    let blank = |c: char| c.is_whitespace() || c == '\u{feff}';
    let trimmed = line.trim_matches(blank);
    let Some(inner) = trimmed.strip_prefix(OPENING) else {
        return LineKind::Text;
    };
    let inner = inner.trim_start_matches(blank);
    let closed = inner
        .strip_suffix(CLOSING)
        .map(|inner| inner.trim_matches(blank));
    if behind_word(inner, END_WORD).is_some() {
        return match closed {
            Some(END_WORD) => LineKind::End,
            _ => LineKind::Unreadable(MarkerError::Torn),
        };
    }
    let Some(_) = behind_word(inner, BEGIN_WORD) else {
        return LineKind::Text;
    };
    if trimmed.len() > MAX_MARKER_BYTES {
        return LineKind::Unreadable(MarkerError::TooLong);
    }
    let read = match closed.and_then(|inner| behind_word(inner, BEGIN_WORD)) {
        Some(parts) => parse(parts),
        None => Err(MarkerError::Torn),
    };
    read.map_or_else(LineKind::Unreadable, LineKind::Begin)
}

/// What follows a word, if a text begins with it.
fn behind_word<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let rest = text.strip_prefix(word)?;
    let ends = rest
        .chars()
        .next()
        .is_none_or(|c| !(c.is_alphanumeric() || c == '_'));
    ends.then_some(rest)
}

fn parse(parts: &str) -> Result<Marker, MarkerError> {
    let (mut id, mut time, mut writer, mut label) = (None, None, None, None);
    for part in parts.split_whitespace() {
        let (word, value) = part.split_once('=').ok_or(MarkerError::Part)?;
        let is_new = match word {
            "id" => id.replace(value).is_none(),
            "time" => time.replace(value).is_none(),
            "by" => writer.replace(value).is_none(),
            "label" => label.replace(value).is_none(),
            _ => false,
        };
        if !is_new {
            return Err(MarkerError::Part);
        }
    }
    let (Some(id), Some(time), Some(writer), Some(label)) = (id, time, writer, label) else {
        return Err(MarkerError::Missing);
    };
    Ok(Marker {
        id: EntryId::new(id).map_err(|_| MarkerError::Part)?,
        time: time.parse().map_err(|_| MarkerError::Part)?,
        writer: writer.parse().map_err(|_| MarkerError::Part)?,
        label: parse_label(label).ok_or(MarkerError::Part)?,
    })
}

fn parse_label(text: &str) -> Option<Label> {
    let (class, untrusted) = match text.split_once(',') {
        None => (text, false),
        Some((class, "untrusted")) => (class, true),
        Some(_) => return None,
    };
    Some(Label::new(class.parse().ok()?, untrusted))
}

/// A text in which no line can be taken for a marker, whatever it stood for before.
///
/// Every opening of a comment loses its meaning: its bracket is replaced by a look-alike.
pub(super) fn without_markers(text: &str) -> Cow<'_, str> {
    if text.contains(OPENING) {
        Cow::Owned(text.replace(OPENING, "\u{2039}!--"))
    } else {
        Cow::Borrowed(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str =
        "<!-- memory id=m1 time=2026-12-01T05:30:00Z by=session:chat-1 label=private,untrusted -->";

    #[test]
    fn a_marker_is_read_as_it_is_written() {
        let LineKind::Begin(marker) = line_kind(GOOD) else {
            panic!("not read: {:?}", line_kind(GOOD));
        };
        assert_eq!(marker.to_string(), GOOD);
        assert_eq!(
            marker.label,
            Label::new(bxcore::label::Class::Private, true)
        );
        let order =
            "\u{feff} <!--memory by=owner label=public  time=2026-12-01T05:30:00Z id=m1-->\r";
        assert!(
            matches!(line_kind(order), LineKind::Begin(_)),
            "{:?}",
            line_kind(order)
        );
    }

    #[test]
    fn what_is_torn_is_not_taken_for_text() {
        for cut in 0..GOOD.len() {
            let kind = line_kind(&GOOD[..cut]);
            if cut < "<!-- memory".len() {
                assert_eq!(kind, LineKind::Text, "{}", &GOOD[..cut]);
            } else {
                assert!(
                    matches!(kind, LineKind::Unreadable(_)),
                    "{}: {kind:?}",
                    &GOOD[..cut]
                );
            }
        }
    }

    #[test]
    fn what_is_not_exactly_a_marker_is_unreadable() {
        for (change, to) in [
            ("id=m1", "id=M1"),
            ("id=m1 ", ""),
            ("id=m1", "id=m1 id=m2"),
            ("id=m1", "id=m1 trust=yes"),
            ("2026-12-01", "2026-13-01"),
            ("session:chat-1", "chat-1"),
            ("label=private,untrusted", "label=private,trusted"),
            ("label=private,untrusted", "label=none"),
            ("label=private,untrusted", "label=private,untrusted,"),
            (" -->", " --> and more"),
            (" -->", ""),
        ] {
            let line = GOOD.replace(change, to);
            assert!(
                matches!(line_kind(&line), LineKind::Unreadable(_)),
                "{line}"
            );
        }
        let long = GOOD.replace("id=m1", &format!("id=m1{}", " ".repeat(MAX_MARKER_BYTES)));
        assert_eq!(line_kind(&long), LineKind::Unreadable(MarkerError::TooLong));
    }

    #[test]
    fn other_comments_are_text() {
        for line in [
            "<!-- a note -->",
            "<!-- memories -->",
            "memory id=m1",
            "<!- memory -->",
            "",
        ] {
            assert_eq!(line_kind(line), LineKind::Text, "{line}");
        }
        for line in ["<!-- /memory -->", "  <!--/memory-->"] {
            assert_eq!(line_kind(line), LineKind::End, "{line}");
        }
        for line in ["<!-- /memory", "<!-- /memory x -->", "<!-- /memory --> x"] {
            assert!(matches!(line_kind(line), LineKind::Unreadable(_)), "{line}");
        }
    }
}
