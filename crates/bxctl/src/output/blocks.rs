//! Markdown that is still being written, cut into blocks that are complete. Pure.

/// The largest block that is kept back, in bytes; a longer one is cut at a line end.
const MAX_BLOCK_BYTES: usize = 256 * 1024;

/// Takes text as it comes and gives the blocks that nothing later can change.
///
/// A block ends at an empty line outside a code fence, unless what follows is indented and so
/// belongs to a list item.
#[derive(Debug, Default)]
pub struct Blocks {
    pending: String,
    /// How much of `pending` has been looked at, up to a line start.
    seen: usize,
    fence: Option<Fence>,
    /// The end of the last empty line, if only empty lines came after.
    gap: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fence {
    mark: char,
    length: usize,
}

impl Blocks {
    /// Adds text and gives the blocks that it completes.
    pub fn push(&mut self, text: &str) -> Vec<String> {
        self.pending.push_str(text);
        let mut done = Vec::new();
        while let Some(length) = self.pending[self.seen..].find('\n') {
            let start = self.seen;
            let line = self.pending[start..start + length].to_owned();
            self.seen = start + length + 1;
            if self.line(&line, start) {
                done.push(self.take(start));
            } else if self.seen > MAX_BLOCK_BYTES {
                done.push(self.take(self.seen));
            }
        }
        if self.gap && self.fence.is_none() && self.next_block_has_begun() {
            done.push(self.take(self.seen));
        }
        done.retain(|block| !block.trim().is_empty());
        done
    }

    /// What is left at the end of the text.
    pub fn finish(&mut self) -> Option<String> {
        let rest = std::mem::take(self).pending;
        (!rest.trim().is_empty()).then_some(rest)
    }

    /// What is being written, not yet complete.
    pub fn pending(&self) -> &str {
        &self.pending
    }

    /// Whether the block before the line that starts at `start` is complete.
    fn line(&mut self, line: &str, start: usize) -> bool {
        let content = line.trim();
        let opens = fence(line);
        match (self.fence, opens) {
            (Some(open), Some((found, info)))
                if found.mark == open.mark && found.length >= open.length && info.is_empty() =>
            {
                self.fence = None;
                return false;
            }
            (Some(_), _) => return false,
            (None, _) => {}
        }
        if content.is_empty() {
            self.gap = start > 0;
            return false;
        }
        let complete = self.gap && !line.starts_with([' ', '\t']);
        self.gap = false;
        self.fence = opens.map(|(found, _)| found);
        complete
    }

    /// Whether the unfinished line already shows that it begins another block.
    fn next_block_has_begun(&self) -> bool {
        let open = &self.pending[self.seen..];
        open.chars()
            .next()
            .is_some_and(|first| !first.is_whitespace())
    }

    fn take(&mut self, end: usize) -> String {
        let rest = self.pending.split_off(end);
        self.seen = self.seen.saturating_sub(end);
        self.gap = false;
        std::mem::replace(&mut self.pending, rest)
    }
}

/// The code fence that a line opens or closes, and the words after it.
fn fence(line: &str) -> Option<(Fence, &str)> {
    let content = line.trim_start();
    let mark = content
        .chars()
        .next()
        .filter(|mark| matches!(mark, '`' | '~'))?;
    let length = content.chars().take_while(|c| *c == mark).count();
    (length >= 3).then(|| (Fence { mark, length }, content[length..].trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: &[&str]) {
        for size in [1, 3, text.len().max(1)] {
            let mut blocks = Blocks::default();
            let mut found = Vec::new();
            let characters: Vec<char> = text.chars().collect();
            for piece in characters.chunks(size) {
                found.extend(blocks.push(&piece.iter().collect::<String>()));
            }
            found.extend(blocks.finish());
            let found: Vec<&str> = found.iter().map(|block| block.trim_end()).collect();
            assert_eq!(found, expect, "in pieces of {size}");
        }
    }

    #[test]
    fn blocks_end_at_empty_lines() {
        check(
            "one\nmore\n\ntwo\n\n\nthree",
            &["one\nmore", "two", "three"],
        );
        check("\n\none", &["one"]);
        check("", &[]);
    }

    #[test]
    fn a_code_block_is_one_block() {
        check(
            "```rust\na\n\nb\n```\n\nafter",
            &["```rust\na\n\nb\n```", "after"],
        );
        check("~~~\n```\n\nx\n~~~\n\ny", &["~~~\n```\n\nx\n~~~", "y"]);
        check("```\nnever closed\n\nx", &["```\nnever closed\n\nx"]);
    }

    #[test]
    fn what_is_indented_belongs_to_its_item() {
        check(
            "- a\n\n  more\n\n- b\n\nend",
            &["- a\n\n  more", "- b", "end"],
        );
    }

    #[test]
    fn a_block_is_given_as_soon_as_the_next_one_begins() {
        let mut blocks = Blocks::default();
        assert!(blocks.push("one\n\n").is_empty());
        assert_eq!(blocks.push("t"), ["one\n\n"]);
        assert_eq!(blocks.pending(), "t");
    }
}
