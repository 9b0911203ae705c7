//! Makes text of models, tools and strangers safe for a terminal. Pure.
//!
//! A terminal acts on escape sequences: it moves the cursor, sets the title, answers questions,
//! writes the clipboard. None of that may come from text that is only meant to be read.

use bxcore::text::deceives;

/// The longest escape sequence that is dropped whole, in characters. What is longer is no sequence
/// that a terminal would take, and its rest is shown, so that nothing can hide what follows.
const MAX_SEQUENCE_CHARS: usize = 256;

/// Drops escape sequences and control characters from text that comes in pieces.
#[derive(Debug, Default)]
pub struct Sanitizer {
    state: State,
    held: usize,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    /// After ESC.
    Escape,
    /// After ESC and intermediates, before the final byte.
    Intermediate,
    /// In a control sequence (CSI), until its final byte.
    Control,
    /// In a string (OSC, DCS, APC, PM, SOS), until its terminator.
    Text7,
    /// In a string, after ESC that may begin its terminator.
    TextEscape,
}

impl Sanitizer {
    /// The safe part of the next piece.
    pub fn feed(&mut self, piece: &str) -> String {
        let mut safe = String::with_capacity(piece.len());
        for character in piece.chars() {
            self.take(character, &mut safe);
        }
        safe
    }

    fn take(&mut self, c: char, safe: &mut String) {
        if self.state != State::Text {
            self.held += 1;
            // A line end or the limit ends every sequence, complete or not.
            if c == '\n' || self.held > MAX_SEQUENCE_CHARS {
                self.enter(State::Text);
            }
        }
        match self.state {
            State::Text => self.text(c, safe),
            State::Escape => self.enter(match c {
                '[' => State::Control,
                ']' | 'P' | '_' | '^' | 'X' => State::Text7,
                ' '..='/' => State::Intermediate,
                '\x1b' => State::Escape,
                _ => State::Text,
            }),
            State::Intermediate => {
                if !matches!(c, ' '..='/') {
                    self.enter(State::Text);
                }
            }
            State::Control => match c {
                '\x1b' => self.enter(State::Escape),
                '@'..='~' => self.enter(State::Text),
                _ => {}
            },
            State::Text7 => match c {
                '\x07' | '\u{9c}' => self.enter(State::Text),
                '\x1b' => self.state = State::TextEscape,
                _ => {}
            },
            State::TextEscape => match c {
                '\\' => self.enter(State::Text),
                '\x1b' => {}
                _ => self.state = State::Text7,
            },
        }
    }

    fn text(&mut self, c: char, safe: &mut String) {
        match c {
            '\x1b' => self.enter(State::Escape),
            '\u{9b}' => self.enter(State::Control),
            '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}' => self.enter(State::Text7),
            '\n' | '\t' => safe.push(c),
            c if c.is_control() || deceives(c) => {}
            c => safe.push(c),
        }
    }

    fn enter(&mut self, state: State) {
        self.state = state;
        self.held = 0;
    }
}

/// A whole text without anything that a terminal would act on.
pub fn sanitize(text: &str) -> String {
    Sanitizer::default().feed(text)
}

/// A text as one safe line of at most `max_chars` characters, with an ellipsis if it was cut.
pub fn one_line(text: &str, max_chars: usize) -> String {
    let safe = sanitize(text);
    let mut words = String::new();
    for word in safe.split_whitespace() {
        if !words.is_empty() {
            words.push(' ');
        }
        words.push_str(word);
        if words.chars().count() > max_chars {
            break;
        }
    }
    if words.chars().count() <= max_chars {
        return words;
    }
    let mut cut: String = words.chars().take(max_chars.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_are_dropped_whole_and_text_stays() {
        let check = |text: &str, expect: &str| {
            assert_eq!(sanitize(text), expect, "{text:?}");
            let mut in_pieces = Sanitizer::default();
            let joined: String = text
                .chars()
                .map(|c| in_pieces.feed(c.encode_utf8(&mut [0; 4])))
                .collect();
            assert_eq!(joined, expect, "{text:?} in pieces");
        };
        check("plain ü 𝄞\n\tx", "plain ü 𝄞\n\tx");
        check("a\x1b[2J\x1b[31mred\x1b[0m", "ared");
        check("a\x1b]0;title\x07b", "ab");
        check("a\x1b]52;c;cm0gLXJm\x1b\\b", "ab");
        check("a\u{9b}31mb\u{9d}0;t\u{9c}c", "abc");
        check("a\x1bPq\x1bx\x1b\\b", "ab");
        check("a\x1b(0b\x1bcd", "abd");
        check("a\rb\x08c\x00d\x7fe", "abcde");
        check("ok\u{202e}txt.exe\u{2066}", "oktxt.exe");
        check("\x1b\x1b[1mx", "x");
    }

    #[test]
    fn an_open_sequence_hides_at_most_its_line() {
        assert_eq!(sanitize("a\x1b]0;never closed\nseen"), "a\nseen");
        let long = format!("\x1b]{}", "x".repeat(1000));
        assert!(sanitize(&long).len() > 700);
    }

    #[test]
    fn a_line_is_a_line() {
        assert_eq!(one_line("a\n b\t c", 10), "a b c");
        assert_eq!(one_line("abcdef", 4), "abc…");
        assert_eq!(one_line("", 4), "");
    }
}
