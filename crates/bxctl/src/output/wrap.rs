//! Lines that fit a terminal. Pure.

use super::style::{Paint, Style};
use unicode_width::UnicodeWidthStr;

/// Text with its styles.
pub(super) type Span = (Vec<Style>, String);

/// How wide a text is on a terminal, in columns.
pub(super) fn width(text: &str) -> usize {
    text.width()
}

/// Wraps a plain text between words; a word that is wider than the line stands alone.
pub fn wrap(text: &str, columns: usize) -> Vec<String> {
    wrap_spans(&[(Vec::new(), text.to_owned())], columns, Paint::Plain)
}

/// Wraps styled text between words. A line feed in the text ends its line.
pub(super) fn wrap_spans(spans: &[Span], columns: usize, paint: Paint) -> Vec<String> {
    let mut lines = vec![Line::default()];
    let mut gap = false;
    for word in words(spans) {
        match word {
            Word::Break => {
                lines.push(Line::default());
                gap = false;
            }
            Word::Gap => gap = true,
            Word::Parts(parts) => {
                let wide: usize = parts.iter().map(|(_, text)| width(text)).sum();
                let line = lines.last_mut().filter(|line| {
                    line.columns == 0 || line.columns + usize::from(gap) + wide <= columns
                });
                match line {
                    Some(line) => line.push(gap, wide, parts),
                    None => {
                        let mut line = Line::default();
                        line.push(false, wide, parts);
                        lines.push(line);
                    }
                }
                gap = false;
            }
        }
    }
    lines.into_iter().map(|line| line.paint(paint)).collect()
}

#[derive(Default)]
struct Line {
    columns: usize,
    spans: Vec<Span>,
}

impl Line {
    fn push(&mut self, gap: bool, wide: usize, parts: Vec<Span>) {
        let gap = gap && self.columns > 0;
        for (number, (styles, text)) in parts.into_iter().enumerate() {
            if gap && number == 0 {
                self.space_before(&styles);
            }
            match self.spans.last_mut() {
                // A run of one style is painted as one, its spaces included.
                Some((last, so_far)) if *last == styles => so_far.push_str(&text),
                _ => self.spans.push((styles, text)),
            }
        }
        self.columns += wide + usize::from(gap);
    }

    /// A space between two words; between two styles it has neither.
    fn space_before(&mut self, styles: &[Style]) {
        match self.spans.last_mut() {
            Some((last, so_far)) if last == styles || last.is_empty() => so_far.push(' '),
            _ => self.spans.push((Vec::new(), " ".to_owned())),
        }
    }

    fn paint(self, paint: Paint) -> String {
        self.spans
            .into_iter()
            .fold(String::new(), |line, (styles, text)| {
                line + &styles
                    .iter()
                    .fold(text, |text, style| paint.paint(*style, &text))
            })
    }
}

enum Word {
    Parts(Vec<Span>),
    Gap,
    Break,
}

fn words(spans: &[Span]) -> Vec<Word> {
    let mut found = Vec::new();
    let mut open: Vec<Span> = Vec::new();
    for (styles, text) in spans {
        for piece in text.split_inclusive(char::is_whitespace) {
            let word = piece.trim_end_matches(char::is_whitespace);
            if !word.is_empty() {
                open.push((styles.clone(), word.to_owned()));
            }
            if word.len() < piece.len() {
                if !open.is_empty() {
                    found.push(Word::Parts(std::mem::take(&mut open)));
                }
                found.push(if piece.ends_with('\n') {
                    Word::Break
                } else {
                    Word::Gap
                });
            }
        }
    }
    if !open.is_empty() {
        found.push(Word::Parts(open));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words_by_their_width() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("a verylongword b", 6), ["a", "verylongword", "b"]);
        assert_eq!(wrap("日本 語です", 6), ["日本", "語です"]);
        assert_eq!(wrap("a\nb", 9), ["a", "b"]);
        assert_eq!(wrap("", 9), [""]);
    }

    #[test]
    fn a_word_of_two_styles_stays_together() {
        let spans = vec![
            (vec![], "x ab".to_owned()),
            (vec![Style::Strong], "cd".to_owned()),
            (vec![], ", e".to_owned()),
        ];
        assert_eq!(wrap_spans(&spans, 6, Paint::Plain), ["x", "abcd,", "e"]);
    }
}
