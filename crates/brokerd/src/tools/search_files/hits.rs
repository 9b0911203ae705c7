//! Looking for a text in lines, and what is told of the hits. Pure.

use crate::tools::list_dir::one_line;
use bxcore::text::cap;
use std::fmt::Write as _;

/// How much of a line is shown, in bytes.
const MAX_LINE_SHOWN_BYTES: usize = 200;
/// How much is shown in front of a hit that stands far into a long line, in bytes.
const BEFORE_HIT_BYTES: usize = 60;

/// Hits so far, and what is looked for.
pub(super) struct Hits {
    pattern: String,
    is_case_sensitive: bool,
    max: usize,
    lines: Vec<String>,
    /// Why not everything was searched, if so.
    pub(super) cuts: Vec<&'static str>,
    pub(super) files: usize,
}

impl Hits {
    pub(super) fn new(pattern: &str, is_case_sensitive: bool, max: usize) -> Self {
        let pattern = if is_case_sensitive {
            pattern.to_owned()
        } else {
            pattern.to_lowercase()
        };
        Self {
            pattern,
            is_case_sensitive,
            max,
            lines: Vec::new(),
            cuts: Vec::new(),
            files: 0,
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.lines.len() >= self.max
    }

    /// Notes once why not everything was searched.
    pub(super) fn cut(&mut self, why: &'static str) {
        if !self.cuts.contains(&why) {
            self.cuts.push(why);
        }
    }

    /// Looks through a file's content.
    pub(super) fn look(&mut self, path: &str, content: &[u8]) {
        self.files += 1;
        for (number, line) in (1_u64..).zip(content.split(|byte| *byte == b'\n')) {
            let line = String::from_utf8_lossy(line);
            let Some(at) = self.position(&line) else {
                continue;
            };
            if self.is_full() {
                return self.cut("there are more hits");
            }
            let shown = excerpt(line.trim_end_matches('\r'), at);
            self.lines
                .push(format!("{}:{number}: {shown}", one_line(path)));
        }
    }

    fn position(&self, line: &str) -> Option<usize> {
        if self.is_case_sensitive {
            return line.find(&self.pattern);
        }
        // Lower case can be longer or shorter, so this place is near the hit, not exactly at it.
        line.to_lowercase().find(&self.pattern)
    }

    pub(super) fn show(&self) -> String {
        let mut text = self.lines.join("\n");
        let files = self.files;
        if self.lines.is_empty() {
            // Writing to a String can't fail, hence the ignored results.
            let _ = write!(text, "[no hits in {files} files]");
        }
        for why in &self.cuts {
            let _ = write!(text, "\n[not everything was searched: {why}]");
        }
        text
    }
}

/// A line, or the part of it around a hit.
fn excerpt(line: &str, hit: usize) -> String {
    if line.len() <= MAX_LINE_SHOWN_BYTES {
        return one_line(line);
    }
    let start = line.floor_char_boundary(hit.min(line.len()).saturating_sub(BEFORE_HIT_BYTES));
    let part = cap(&line[start..], MAX_LINE_SHOWN_BYTES);
    let before = if start > 0 { "…" } else { "" };
    let after = if start + part.len() < line.len() {
        "…"
    } else {
        ""
    };
    format!("{before}{}{after}", one_line(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, is_case_sensitive: bool, content: &str, expect: &str) {
        let mut hits = Hits::new(pattern, is_case_sensitive, 2);
        hits.look("a", content.as_bytes());
        assert_eq!(hits.show(), expect);
    }

    #[test]
    fn lines_are_found_and_counted() {
        check("Ü", false, "x\nein übel\r\n", "a:2: ein übel");
        check("Ü", true, "ein übel", "[no hits in 1 files]");
        check(
            "x",
            false,
            "x\nx\nX\n",
            "a:1: x\na:2: x\n[not everything was searched: there are more hits]",
        );
        check("b\u{1b}", false, "ab\u{1b}[2J", "a:1: ab\\u{1b}[2J");
        check("z", false, "", "[no hits in 1 files]");
    }

    #[test]
    fn a_long_line_is_shown_around_its_hit() {
        let line = format!("{}needle{}", "é".repeat(300), "y".repeat(5000));
        let shown = excerpt(&line, line.find("needle").unwrap());
        assert!(shown.starts_with('…') && shown.contains("needle") && shown.ends_with('…'));
        assert!(shown.len() < 300);
    }
}
