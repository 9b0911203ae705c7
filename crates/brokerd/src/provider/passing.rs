//! An answer while it passes: framed, checked, measured, hashed, and kept as far as it goes on
//! record. Pure; the time is passed in.

use super::failure::ProviderFailure;
use crate::audit::Raw;
use crate::secrets::Secrets;
use bxcore::audit::Hasher;
use bxcore::chat::{AnswerBuilder, CallFacts, Chunk, Fault, Meter};
use bxcore::usage::Receipt;
use bxkit::sse::Framer;
use bytes::Bytes;
use std::time::Duration;

/// How far back a secret is looked for that comes in pieces, in bytes: longer than any key.
const LOOK_BACK_BYTES: usize = 4096;

/// An answer as far as it has come.
#[derive(Debug, Default)]
pub struct Passing {
    secrets: Secrets,
    framer: Framer,
    meter: Meter,
    answer: AnswerBuilder,
    raw: Hasher,
    raw_bytes: u64,
}

impl Passing {
    /// An answer in which none of these secrets may stand.
    pub fn without(secrets: Secrets) -> Self {
        Self {
            secrets,
            ..Self::default()
        }
    }

    /// Takes the next piece; gives the whole events that go on to whoever asked, if any.
    ///
    /// # Errors
    /// It is no chat completion, or one without bounds.
    pub fn take(&mut self, piece: &Bytes, at: Duration) -> Result<Option<Bytes>, ProviderFailure> {
        self.raw.update(piece);
        self.raw_bytes += piece.len() as u64;
        let events = self
            .framer
            .feed(piece)
            .map_err(|_| ProviderFailure::Garbled)?;
        events.map(|events| self.look_at(events, at)).transpose()
    }

    /// The stream has ended. Gives an event whose end was left out, if there is one.
    ///
    /// # Errors
    /// As for [`Passing::take`].
    pub fn close(&mut self, at: Duration) -> Result<Option<Bytes>, ProviderFailure> {
        let rest = self.framer.rest();
        if rest.is_empty() {
            return Ok(None);
        }
        let closed = Bytes::from([&rest[..], b"\n\n"].concat());
        self.look_at(closed, at).map(Some)
    }

    fn look_at(&mut self, mut events: Bytes, at: Duration) -> Result<Bytes, ProviderFailure> {
        let taken = self.meter.take(&events, at).map_err(|fault| match fault {
            Fault::Garbled(_) => ProviderFailure::Garbled,
            Fault::Reported(_) => ProviderFailure::Reported,
        })?;
        events.truncate(taken);
        for line in events.split(|byte| *byte == b'\n') {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let Some(data) = line.strip_prefix(b"data:").map(<[u8]>::trim_ascii) else {
                continue;
            };
            if data == b"[DONE]" {
                continue;
            }
            let chunk: Chunk =
                serde_json::from_slice(data).map_err(|_| ProviderFailure::Garbled)?;
            if let Some(choice) = chunk.choices.into_iter().next() {
                self.answer
                    .push(choice)
                    .map_err(|_| ProviderFailure::Garbled)?;
            }
        }
        if self.holds_secret(events.len()) {
            return Err(ProviderFailure::Secret);
        }
        Ok(events)
    }

    /// Whether a secret stands in what has come, of which so many bytes are new: a service that sends
    /// back its key would have it recorded, and read by whoever reads the session.
    fn holds_secret(&self, new_bytes: usize) -> bool {
        let looked_at = new_bytes.saturating_add(LOOK_BACK_BYTES);
        self.answer.texts().any(|text| {
            let from = text.len().saturating_sub(looked_at);
            self.secrets.came_back(&text.as_bytes()[from..])
        })
    }

    /// Whether anything has come.
    pub fn has_begun(&self) -> bool {
        self.meter.has_begun()
    }

    /// How much of the answer's own text has come, in bytes: what the line is kept open with is none.
    pub fn answer_bytes(&self) -> usize {
        self.answer.bytes()
    }

    /// Whether the provider has said why the answer ended; its count may still come.
    pub fn is_finished(&self) -> bool {
        self.meter.is_finished()
    }

    /// Whether the provider has said that nothing more comes.
    pub fn is_done(&self) -> bool {
        self.meter.is_done()
    }

    /// What was measured of a whole answer to a body of this length.
    ///
    /// # Errors
    /// The provider never said why it ended.
    pub fn receipt(&self, body_bytes: usize, waited: Duration) -> Result<Receipt, ProviderFailure> {
        if !self.meter.is_finished() {
            return Err(ProviderFailure::Incomplete);
        }
        Ok(self.meter.receipt(&CallFacts {
            slot: None,
            waited,
            body_bytes,
        }))
    }

    /// What goes on record: the answer's text with the tools that it calls, and what all bytes
    /// that came were.
    pub fn into_record(self) -> (String, Raw) {
        let raw = Raw {
            bytes: self.raw_bytes,
            sha256: self.raw.hex(),
        };
        let mut text = self.answer.content().to_owned();
        if let Ok(answer) = self.answer.finish()
            && !answer.tool_calls.is_empty()
        {
            if !text.is_empty() {
                text.push('\n');
            }
            // Plain data always serialises.
            text.push_str(&serde_json::to_string(&answer.tool_calls).unwrap_or_default());
        }
        (self.secrets.blotted(text), raw)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bxcore::audit::sha256_hex;
    use bxcore::usage::UsageSource;

    const AT: Duration = Duration::from_millis(5);

    fn feed(passing: &mut Passing, text: &str) -> Result<String, ProviderFailure> {
        let piece = Bytes::copy_from_slice(text.as_bytes());
        let events = passing.take(&piece, AT)?.unwrap_or_default();
        Ok(String::from_utf8(events.to_vec()).unwrap())
    }

    fn class(text: &str) -> &'static str {
        feed(&mut Passing::default(), text).unwrap_err().class()
    }

    #[test]
    fn an_answer_passes_as_it_is_whatever_its_pieces() {
        let stream = concat!(
            ": thinking\n\n",
            "data: {\"choices\":[{\"delta\":{\"content\":\"Hel\"}}]}\n\n",
            "data: {\"choices\":[{\"delta\":{\"content\":\"lo\"}}]}\r\n\r\n",
            "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"clock\",\"arguments\":\"{}\"}}]}}]}\n\n",
            "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"tool_calls\"}],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":2}}\n\n",
            "data: [DONE]\n\n",
        );
        for size in [1, 3, 7, 1000] {
            let mut passing = Passing::default();
            let mut passed = String::new();
            for piece in stream.as_bytes().chunks(size) {
                let piece = std::str::from_utf8(piece).unwrap();
                passed.push_str(&feed(&mut passing, piece).unwrap());
            }
            assert_eq!(passed, stream);
            assert!(passing.is_done());
            let receipt = passing.receipt(100, AT).unwrap();
            assert_eq!((receipt.prompt_tokens, receipt.completion_tokens), (9, 2));
            assert_eq!(receipt.source, UsageSource::Reported);
            let (text, raw) = passing.into_record();
            assert!(text.starts_with("Hello\n[{"), "{text}");
            assert!(text.contains("clock"), "{text}");
            assert_eq!(raw.bytes, stream.len() as u64);
            assert_eq!(raw.sha256, sha256_hex(stream.as_bytes()));
        }
    }

    #[test]
    fn what_is_no_answer_has_its_class() {
        assert_eq!(class("<html>\n\n"), "garbled");
        assert_eq!(class("data: {}\n\n"), "garbled");
        assert_eq!(class("event: receipt\ndata: {}\n\n"), "garbled");
        assert_eq!(class("event: label\ndata: {}\n\n"), "garbled");
        assert_eq!(
            class("data: {\"error\":{\"message\":\"x\"}}\n\n"),
            "reported"
        );
        let endless = format!("data: {}", "x".repeat(bxkit::sse::MAX_EVENT_BYTES));
        assert_eq!(class(&endless), "garbled");
        let calls = "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":99999}]}}]}\n\n";
        assert_eq!(class(calls), "garbled");
    }

    #[test]
    fn an_answer_that_never_says_why_it_ended_is_cut_off() {
        let mut passing = Passing::default();
        let piece = "data: {\"choices\":[{\"delta\":{\"content\":\"Hel\"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"lo\"}}]}";
        feed(&mut passing, piece).unwrap();
        assert!(passing.close(AT).unwrap().is_some());
        assert_eq!(passing.receipt(1, AT).unwrap_err().class(), "cut-off");
        assert_eq!(passing.into_record().0, "Hello");
    }
}
