//! The last lines of what a child said, for an error message. Nothing in them can move a cursor.

use std::collections::VecDeque;

/// Lines that are kept.
const KEPT_LINES: usize = 12;

/// The last lines of what a program said.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    lines: VecDeque<String>,
}

impl Tail {
    pub(crate) fn push(&mut self, line: &str) {
        if self.lines.len() == KEPT_LINES {
            self.lines.pop_front();
        }
        self.lines
            .push_back(bxcore::text::neutralise(line.trim_end()).into_owned());
    }

    /// The lines; says so where there are none.
    pub(crate) fn text(&self) -> String {
        if self.lines.is_empty() {
            return "it said nothing".to_owned();
        }
        self.lines
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_lines_are_kept_and_none_can_move_the_cursor() {
        let mut tail = Tail::default();
        assert_eq!(tail.text(), "it said nothing");
        for number in 0..100 {
            tail.push(&format!("line {number}\u{1b}[2J\n"));
        }
        let text = tail.text();
        assert_eq!(text.lines().count(), KEPT_LINES);
        assert!(text.contains("line 99") && !text.contains("line 12") && !text.contains('\u{1b}'));
    }
}
