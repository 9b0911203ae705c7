//! Text of a stream as events, whatever pieces it comes in.

use super::Event;

/// The largest event, in bytes of its lines.
pub const MAX_EVENT_BYTES: usize = 8 * 1024 * 1024;

/// An event is larger than the decoder takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event is larger than {max_bytes} bytes")]
pub struct TooLong {
    /// The limit.
    pub max_bytes: usize,
}

/// Turns a byte stream into events, by the rules of the HTML standard.
///
/// Lines end with LF, CR LF or CR; pieces may be split anywhere, inside a character too. Bytes that
/// are not UTF-8 become U+FFFD. An event that the stream's end cuts off is dropped, as the standard
/// has it.
#[derive(Debug)]
pub struct Decoder {
    max_bytes: usize,
    line: Vec<u8>,
    /// The last byte was CR: an LF that follows belongs to it.
    after_cr: bool,
    first_line: bool,
    event: String,
    data: String,
    has_data: bool,
    id: Option<String>,
}

impl Default for Decoder {
    fn default() -> Self {
        Self::with_limit(MAX_EVENT_BYTES)
    }
}

impl Decoder {
    /// A decoder that takes events up to [`MAX_EVENT_BYTES`].
    pub fn new() -> Self {
        Self::default()
    }

    /// A decoder with a limit of its own.
    pub fn with_limit(max_bytes: usize) -> Self {
        Self {
            max_bytes,
            line: Vec::new(),
            after_cr: false,
            first_line: true,
            event: String::new(),
            data: String::new(),
            has_data: false,
            id: None,
        }
    }

    /// Takes the next piece of the stream and gives the events that it completes.
    ///
    /// # Errors
    /// An event exceeds the limit. The stream can't be used any further.
    pub fn feed(&mut self, piece: &[u8]) -> Result<Vec<Event>, TooLong> {
        let mut events = Vec::new();
        let mut rest = piece;
        if self.after_cr && !rest.is_empty() {
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
            self.after_cr = false;
        }
        while let Some(end) = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n')) {
            let (line, ending) = rest.split_at(end);
            rest = match ending {
                [b'\r'] => {
                    self.after_cr = true;
                    &[]
                }
                [b'\r', b'\n', rest @ ..] | [_, rest @ ..] => rest,
                [] => &[],
            };
            self.bounded(line.len())?;
            if self.line.is_empty() {
                self.take_line(line, &mut events);
            } else {
                self.line.extend_from_slice(line);
                let mut whole = std::mem::take(&mut self.line);
                self.take_line(&whole, &mut events);
                whole.clear();
                self.line = whole;
            }
        }
        self.bounded(rest.len())?;
        self.line.extend_from_slice(rest);
        Ok(events)
    }

    fn bounded(&self, more: usize) -> Result<(), TooLong> {
        let held = self.line.len() + self.data.len() + self.event.len();
        if held + more > self.max_bytes {
            Err(TooLong {
                max_bytes: self.max_bytes,
            })
        } else {
            Ok(())
        }
    }

    fn take_line(&mut self, line: &[u8], events: &mut Vec<Event>) {
        let mut line = line;
        if std::mem::take(&mut self.first_line) {
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
        if line.is_empty() {
            events.extend(self.complete());
            return;
        }
        let colon = line
            .iter()
            .position(|byte| *byte == b':')
            .unwrap_or(line.len());
        let (field, value) = line.split_at(colon);
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                if self.has_data {
                    self.data.push('\n');
                }
                self.has_data = true;
                self.data.push_str(&String::from_utf8_lossy(value));
            }
            b"event" => self.event = String::from_utf8_lossy(value).into_owned(),
            b"id" if !value.contains(&0) => {
                self.id = Some(String::from_utf8_lossy(value).into_owned());
            }
            // Comments (an empty field), `retry`, and what later versions may add.
            _ => {}
        }
    }

    fn complete(&mut self) -> Option<Event> {
        let event = std::mem::take(&mut self.event);
        let data = std::mem::take(&mut self.data);
        std::mem::take(&mut self.has_data).then(|| Event {
            event: if event.is_empty() {
                "message".to_owned()
            } else {
                event
            },
            data,
            id: self.id.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sse::encode;
    use proptest::prelude::*;

    fn event(event: &str, data: &str) -> Event {
        Event {
            event: event.to_owned(),
            data: data.to_owned(),
            id: None,
        }
    }

    fn check(text: &[u8], expect: &[Event]) {
        assert_eq!(
            Decoder::new().feed(text).unwrap(),
            expect,
            "{}",
            String::from_utf8_lossy(text)
        );
    }

    #[test]
    fn the_format_is_read_as_the_standard_has_it() {
        check(b"data: a\n\n", &[event("message", "a")]);
        check(
            b"data:a\r\n\r\ndata: b\r\rdata:  c\n\n",
            &[
                event("message", "a"),
                event("message", "b"),
                event("message", " c"),
            ],
        );
        check(b"event: x\ndata: 1\ndata: 2\n\n", &[event("x", "1\n2")]);
        check(b"data\n\n", &[event("message", "")]);
        check(b"data\ndata\n\n", &[event("message", "\n")]);
        check(
            b": comment\n\nevent: only\n\ndata: z\n\n",
            &[event("message", "z")],
        );
        check(b"\xef\xbb\xbfdata: bom\n\n", &[event("message", "bom")]);
        check(b"retry: 5\nother: y\ndata: a\n\n", &[event("message", "a")]);
        check(b"data: cut off", &[]);
        check(
            b"data: \xff\xfe\n\n",
            &[event("message", "\u{fffd}\u{fffd}")],
        );
    }

    #[test]
    fn the_last_id_stays_and_one_with_nul_is_ignored() {
        let mut decoder = Decoder::new();
        let events = decoder
            .feed(b"id: 7\ndata: a\n\ndata: b\n\nid: \0\ndata: c\n\n")
            .unwrap();
        assert!(events.iter().all(|event| event.id.as_deref() == Some("7")));
        assert_eq!(events.len(), 3);
    }

    #[test]
    fn an_endless_event_is_refused_in_any_form() {
        for piece in [&b"data: xxxxxxxxxxxxxxxx\n"[..], b"xxxxxxxxxxxxxxxx"] {
            let mut decoder = Decoder::with_limit(64);
            let refused = (0..64).any(|_| decoder.feed(piece).is_err());
            assert!(refused, "{}", String::from_utf8_lossy(piece));
        }
        // Many events are no trouble.
        let mut decoder = Decoder::with_limit(64);
        for _ in 0..64 {
            assert_eq!(
                decoder.feed(b"data: xxxxxxxxxxxxxxxx\n\n").unwrap().len(),
                1
            );
        }
    }

    proptest! {
        #[test]
        fn any_split_decodes_equal(
            text in "(data|event|id|: x|data: é|data: 𝄞|\r\n|\r|\n|:| |a){0,40}",
            cuts in proptest::collection::vec(0..400_usize, 0..12),
        ) {
            let bytes = text.as_bytes();
            let whole = Decoder::new().feed(bytes).unwrap();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let mut decoder = Decoder::new();
            let mut pieces = Vec::new();
            for pair in cuts.windows(2) {
                pieces.extend(decoder.feed(&bytes[pair[0]..pair[1]]).unwrap());
            }
            prop_assert_eq!(pieces, whole);
        }

        #[test]
        fn what_is_encoded_is_decoded(name in "[a-z ]{0,7}[a-z]", data in "[^\r]{0,40}", size in 1..9_usize) {
            // The format drops one space behind the colon; `encode` writes one of its own.
            let text = encode(&name, &data);
            let mut decoder = Decoder::new();
            let mut events = Vec::new();
            for piece in text.as_bytes().chunks(size) {
                events.extend(decoder.feed(piece).unwrap());
            }
            prop_assert_eq!(events, vec![event(&name, &data)]);
        }
    }
}
