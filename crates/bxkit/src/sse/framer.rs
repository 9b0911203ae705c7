//! Cuts a stream of bytes between its events, so that only whole ones are passed on. Pure.
//!
//! What arrives whole is passed on as it is, without a copy; only a cut event is held.

use super::decoder::MAX_EVENT_BYTES;
use bytes::{Bytes, BytesMut};
use std::mem;

/// An event is longer than [`MAX_EVENT_BYTES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event is longer than {MAX_EVENT_BYTES} bytes")]
pub struct EventTooLong;

/// Holds the beginning of an event whose end has not come yet.
#[derive(Debug, Default)]
pub struct Framer {
    held: BytesMut,
}

impl Framer {
    /// Takes the next bytes; gives the events that are whole now, if any.
    pub fn feed(&mut self, piece: &Bytes) -> Result<Option<Bytes>, EventTooLong> {
        if self.held.is_empty() {
            let Some(end) = last_end(piece, 0) else {
                return self.hold(piece).map(|()| None);
            };
            let rest = piece.slice(end..);
            self.hold(&rest)?;
            return Ok(Some(piece.slice(..end)));
        }
        let seen = self.held.len();
        self.hold(piece)?;
        // The end may lie across the border, of which it needs up to two bytes.
        Ok(
            last_end(&self.held, seen.saturating_sub(2))
                .map(|end| self.held.split_to(end).freeze()),
        )
    }

    /// What is left when the stream has ended: an event without its empty line, or nothing.
    pub fn rest(&mut self) -> Bytes {
        mem::take(&mut self.held).freeze()
    }

    fn hold(&mut self, bytes: &[u8]) -> Result<(), EventTooLong> {
        if self.held.len() + bytes.len() > MAX_EVENT_BYTES {
            return Err(EventTooLong);
        }
        self.held.extend_from_slice(bytes);
        Ok(())
    }
}

/// Behind the last empty line, looking no further back than `from`.
fn last_end(bytes: &[u8], from: usize) -> Option<usize> {
    let ends = |at: &usize| {
        bytes[*at] == b'\n' && matches!(bytes[..*at], [.., b'\n'] | [.., b'\n', b'\r'])
    };
    (from..bytes.len()).rev().find(ends).map(|at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn feed(framer: &mut Framer, piece: &str) -> String {
        let piece = Bytes::copy_from_slice(piece.as_bytes());
        let whole = framer.feed(&piece).unwrap().unwrap_or_default();
        String::from_utf8(whole.to_vec()).unwrap()
    }

    #[test]
    fn only_whole_events_pass() {
        let mut framer = Framer::default();
        assert_eq!(
            feed(&mut framer, "data: 1\n\ndata: 2\n\nda"),
            "data: 1\n\ndata: 2\n\n"
        );
        assert_eq!(feed(&mut framer, "ta: 3"), "");
        assert_eq!(feed(&mut framer, "\n"), "");
        assert_eq!(feed(&mut framer, "\n"), "data: 3\n\n");
        assert_eq!(feed(&mut framer, "data: 4\r\n\r\n:"), "data: 4\r\n\r\n");
        assert_eq!(framer.rest(), ":");
        assert_eq!(framer.rest(), "");
    }

    #[test]
    fn a_whole_piece_is_not_copied() {
        let piece = Bytes::from_static(b"data: 1\n\n");
        let passed = Framer::default().feed(&piece).unwrap().unwrap();
        assert_eq!(passed.as_ptr(), piece.as_ptr());
    }

    #[test]
    fn an_endless_event_is_refused() {
        let mut framer = Framer::default();
        let piece = Bytes::from(vec![b'x'; MAX_EVENT_BYTES / 2]);
        assert_eq!(framer.feed(&piece), Ok(None));
        assert_eq!(framer.feed(&piece), Ok(None));
        assert_eq!(framer.feed(&Bytes::from_static(b"x")), Err(EventTooLong));
    }

    proptest! {
        #[test]
        fn any_split_passes_the_same_bytes(
            text in "(data: [a-z]{0,3}|\n|\r\n|\n\n|:){0,20}",
            size in 1..7_usize,
        ) {
            let mut framer = Framer::default();
            let mut passed = Vec::new();
            for piece in text.as_bytes().chunks(size) {
                if let Some(whole) = framer.feed(&Bytes::copy_from_slice(piece)).unwrap() {
                    prop_assert!(whole.ends_with(b"\n"));
                    passed.extend_from_slice(&whole);
                }
            }
            // A further empty line alone may stay held, but no event that is whole.
            let end = last_end(text.as_bytes(), 0).unwrap_or(0);
            prop_assert!(text[passed.len()..end.max(passed.len())].trim().is_empty());
            passed.extend_from_slice(&framer.rest());
            prop_assert_eq!(passed, text.into_bytes());
        }
    }
}
