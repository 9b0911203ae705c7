//! The line of a file that is wrong, with a caret under the place.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The longest line that is shown whole, in characters.
const MAX_LINE_CHARS: usize = 160;

/// A place in a file and what is wrong there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snippet {
    /// The file.
    pub path: PathBuf,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    source_line: String,
    width: usize,
}

impl Snippet {
    /// Finds line and column of a byte span; a span outside `text` is moved to its end.
    pub(super) fn new(path: &Path, text: &str, span: Range<usize>, message: &str) -> Self {
        let start = floor_to_char(text, span.start);
        let end = floor_to_char(text, span.end).max(start);
        let line_start = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let line_end = text[start..]
            .find('\n')
            .map_or(text.len(), |newline| start + newline);
        let source_line = text[line_start..line_end].trim_end_matches('\r');
        let marked = &text[start..end.min(line_end)];
        Self {
            path: path.to_owned(),
            line: text[..start].matches('\n').count() + 1,
            column: text[line_start..start].chars().count() + 1,
            message: message.trim_end().replace('\n', " "),
            source_line: source_line.to_owned(),
            width: marked.trim_end().chars().count().max(1),
        }
    }
}

impl fmt::Display for Snippet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            line,
            column,
            message,
            ..
        } = self;
        writeln!(f, "{}:{line}:{column}: {message}", self.path.display())?;
        let number = line.to_string();
        let margin = " ".repeat(number.len());
        if self.source_line.chars().count() > MAX_LINE_CHARS {
            // A caret under a cut line would point at the wrong place.
            let cut: String = self.source_line.chars().take(MAX_LINE_CHARS).collect();
            return write!(f, "{margin} |\n{number} | {cut}…");
        }
        // A tab in front of the caret keeps it under its place, whatever the tab width.
        let lead: String = self
            .source_line
            .chars()
            .take(column - 1)
            .map(|character| if character == '\t' { '\t' } else { ' ' })
            .collect();
        let carets = "^".repeat(self.width);
        write!(
            f,
            "{margin} |\n{number} | {}\n{margin} | {lead}{carets}",
            self.source_line
        )
    }
}

fn floor_to_char(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, span: Range<usize>, place: (usize, usize), last_line: &str) {
        let snippet = Snippet::new(Path::new("f"), text, span, "m");
        assert_eq!((snippet.line, snippet.column), place);
        assert_eq!(snippet.to_string().lines().last().unwrap(), last_line);
    }

    #[test]
    fn the_caret_stands_under_the_place() {
        check("ab = 1\ncd = 2\n", 7..9, (2, 1), "  | ^^");
        check("ab = 1\ncd = 2\n", 12..13, (2, 6), "  |      ^");
        check("ä = 1", 5..6, (1, 5), "  |     ^");
        check("\tx = 1", 1..2, (1, 2), "  | \t^");
        check("a = \"\"\"\nx\"\"\"", 4..12, (1, 5), "  |     ^^^");
        check("a = 1\r\n", 4..7, (1, 5), "  |     ^");
        check("", 0..0, (1, 1), "  | ^");
        check("a", 10..20, (1, 2), "  |  ^");
        check("ä", 1..1, (1, 1), "  | ^");
    }

    #[test]
    fn a_very_long_line_is_cut() {
        let long = "x".repeat(1000);
        let text = Snippet::new(Path::new("f"), &long, 900..901, "m").to_string();
        assert!(text.len() < 400 && text.ends_with('…'), "{text}");
    }
}
