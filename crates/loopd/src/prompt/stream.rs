//! What a person may see of a reply while it still comes in.
//!
//! In native mode that is the text itself. In schema mode it is the string of the member `answer`,
//! decoded as it arrives; a call of a tool shows nothing.

use bxcore::transcript::ToolMode;

/// Takes the pieces of a reply and gives the text to show.
#[derive(Debug, Clone)]
pub struct AnswerStream {
    state: State,
    /// The first half of a pair of `\u` escapes.
    high: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    /// Native mode: everything is shown.
    Plain,
    /// Before the opening brace.
    Open,
    /// Before the first key.
    BeforeKey,
    /// How much of `answer"` was read.
    Key(usize),
    /// Before the colon.
    BeforeColon,
    /// Before the opening quote of the value.
    BeforeValue,
    /// Inside the answer.
    Text,
    /// After a backslash.
    Escape,
    /// After `\u`, with the digits read so far and their count.
    Unicode(u16, u8),
    /// After the answer.
    Done,
    /// Not an answer, or not one that can be shown before it is complete.
    Silent,
}

/// The key of an answer with its closing quote.
const KEY: &[u8] = b"answer\"";

impl AnswerStream {
    /// A stream for replies in this mode.
    pub fn new(mode: ToolMode) -> Self {
        match mode {
            ToolMode::Native => Self {
                state: State::Plain,
                high: None,
            },
            ToolMode::Schema => Self::schema(),
        }
    }

    pub(super) fn schema() -> Self {
        Self {
            state: State::Open,
            high: None,
        }
    }

    /// Takes the next piece and gives what it adds to the text.
    pub fn push(&mut self, piece: &str) -> String {
        if self.state == State::Plain {
            return piece.to_owned();
        }
        let mut shown = String::new();
        for c in piece.chars() {
            self.step(c, &mut shown);
        }
        shown
    }

    /// Whether the reply turned out to be an answer.
    pub fn is_answering(&self) -> bool {
        use State::{Done, Escape, Plain, Text, Unicode};
        matches!(self.state, Plain | Text | Escape | Unicode(..) | Done)
    }

    fn step(&mut self, c: char, shown: &mut String) {
        if c.is_ascii_whitespace() && self.skips_blanks() {
            return;
        }
        self.state = match (&self.state, c) {
            (State::Open, '{') => State::BeforeKey,
            (State::BeforeKey, '"') => State::Key(0),
            (State::Key(read), c) => match KEY.get(*read) {
                Some(expected) if char::from(*expected) == c && read + 1 == KEY.len() => {
                    State::BeforeColon
                }
                Some(expected) if char::from(*expected) == c => State::Key(read + 1),
                _ => State::Silent,
            },
            (State::BeforeColon, ':') => State::BeforeValue,
            (State::BeforeValue, '"') => State::Text,
            (State::Text, '"') => {
                self.flush(shown);
                State::Done
            }
            (State::Text, '\\') => State::Escape,
            (State::Text, c) => {
                self.flush(shown);
                shown.push(c);
                State::Text
            }
            (State::Escape, 'u') => State::Unicode(0, 0),
            (State::Escape, c) => {
                self.flush(shown);
                shown.push(escaped(c));
                State::Text
            }
            (State::Unicode(value, digits), c) => {
                let (value, digits) = (*value, *digits);
                self.unicode(value, digits, c, shown)
            }
            (State::Done, _) => State::Done,
            _ => State::Silent,
        };
    }

    fn skips_blanks(&self) -> bool {
        use State::{BeforeColon, BeforeKey, BeforeValue, Open};
        matches!(self.state, Open | BeforeKey | BeforeColon | BeforeValue)
    }

    fn unicode(&mut self, value: u16, digits: u8, c: char, shown: &mut String) -> State {
        const DIGITS: u8 = 4;
        let Some(digit) = c.to_digit(16).and_then(|d| u16::try_from(d).ok()) else {
            self.flush(shown);
            shown.push(char::REPLACEMENT_CHARACTER);
            return State::Text;
        };
        let value = value << 4 | digit;
        if digits + 1 < DIGITS {
            return State::Unicode(value, digits + 1);
        }
        self.unit(value, shown);
        State::Text
    }

    /// Takes one UTF-16 unit; two halves make one character.
    fn unit(&mut self, unit: u16, shown: &mut String) {
        let units = [self.high.take(), Some(unit)];
        if units[0].is_none() && (0xd800..0xdc00).contains(&unit) {
            self.high = Some(unit);
            return;
        }
        let decoded = char::decode_utf16(units.into_iter().flatten());
        shown.extend(decoded.map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)));
    }

    /// A first half whose second half did not come.
    fn flush(&mut self, shown: &mut String) {
        if self.high.take().is_some() {
            shown.push(char::REPLACEMENT_CHARACTER);
        }
    }
}

fn escaped(c: char) -> char {
    match c {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        'b' => '\u{8}',
        'f' => '\u{c}',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(text: &str) -> String {
        AnswerStream::schema().push(text)
    }

    #[test]
    fn only_the_answer_is_shown() {
        for (text, expect) in [
            (r#"{"answer":"hi"}"#, "hi"),
            ("{\n \"answer\" : \"hi\" , \"more\":\"x\"}", "hi"),
            (r#"{"answer":"so fa"#, "so fa"),
            (
                r#"{"answer":"a\"b\\c\nd\/\u00e9\ud83d\ude00"}"#,
                "a\"b\\c\nd/é😀",
            ),
            (r#"{"answer":"\ud83dx\ude00"}"#, "\u{fffd}x\u{fffd}"),
            (r#"{"answer":"\uzz"}"#, "\u{fffd}z"),
            (r#"{"tool":"clock","arguments":{"answer":"no"}}"#, ""),
            (r#"{"answers":"no"}"#, ""),
            (r#"{"ans":"no"}"#, ""),
            (r#"{"answer":{"answer":"no"}}"#, ""),
            ("plain text", ""),
            ("", ""),
        ] {
            assert_eq!(shown(text), expect, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_answer_comes_through_in_any_pieces(answer in "\\PC{0,30}", cuts in prop::collection::vec(0usize..200, 0..6)) {
            let text = serde_json::json!({ "answer": answer }).to_string();
            let mut stream = AnswerStream::new(ToolMode::Schema);
            let mut cuts: Vec<usize> = cuts.into_iter().map(|at| text.floor_char_boundary(at)).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let whole: String = cuts.windows(2).map(|pair| stream.push(&text[pair[0]..pair[1]])).collect();
            prop_assert_eq!(whole, answer);
            prop_assert!(stream.is_answering());
        }

        #[test]
        fn no_text_breaks_the_stream(text in "([{}\":\\\\u0-9a-f]|answer|\\PC){0,80}") {
            let _ = shown(&text);
        }
    }
}
