//! Markdown as text for a terminal. Pure.
//!
//! Whatever the text decodes to (an entity may be an escape character) is made safe after parsing.

use super::sanitize::sanitize;
use super::style::{Paint, Style};
use super::wrap::{Span, width, wrap_spans};
use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

/// The narrowest text column that is wrapped to, however deep lists nest.
const MIN_TEXT_COLUMNS: usize = 20;

/// The deepest nesting whose indentation is shown.
const MAX_PREFIXES: usize = 16;

/// Renders Markdown to lines of at most `columns` where words allow, each ending in a line feed.
pub fn render(text: &str, columns: usize, paint: Paint) -> String {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut page = Page {
        columns,
        paint,
        ..Page::default()
    };
    for event in Parser::new_ext(text, options) {
        page.event(event);
    }
    page.flush();
    let mut out = page.lines.join("\n");
    if !out.is_empty() {
        out.push('\n');
    }
    out
}

struct Page {
    columns: usize,
    paint: Paint,
    lines: Vec<String>,
    spans: Vec<Span>,
    styles: Vec<Style>,
    prefixes: Vec<Prefix>,
    /// The number of the next item of each open list; none in a list of bullets.
    lists: Vec<Option<u64>>,
    code: Option<String>,
    link: Option<String>,
    table: Option<Grid>,
    /// Whether the next block is set off by an empty line.
    gap: bool,
}

impl Default for Page {
    fn default() -> Self {
        Self {
            columns: 80,
            paint: Paint::Plain,
            lines: Vec::new(),
            spans: Vec::new(),
            styles: Vec::new(),
            prefixes: Vec::new(),
            lists: Vec::new(),
            code: None,
            link: None,
            table: None,
            gap: false,
        }
    }
}

/// What stands before the lines of a quote or an item.
struct Prefix {
    first: Option<String>,
    rest: String,
}

#[derive(Default)]
struct Grid {
    rows: Vec<Vec<String>>,
    cell: String,
}

impl Page {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => self.text(&text),
            Event::Code(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.styles.push(Style::Code);
                self.text(&text);
                self.styles.pop();
            }
            Event::FootnoteReference(name) => self.text(&format!("[{name}]")),
            Event::SoftBreak => self.text(" "),
            Event::HardBreak => self.text("\n"),
            Event::TaskListMarker(done) => self.text(if done { "[x] " } else { "[ ] " }),
            Event::Rule => {
                self.begin_block();
                self.line(&"─".repeat(self.text_columns().min(40)), Some(Style::Dim));
                self.gap = true;
            }
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => self.begin_block(),
            Tag::Heading { .. } => {
                self.begin_block();
                self.styles.push(Style::Strong);
            }
            Tag::BlockQuote(_) => {
                self.begin_block();
                self.indent(Some("│ ".to_owned()), "│ ".to_owned());
            }
            Tag::CodeBlock(kind) => {
                self.begin_block();
                if let CodeBlockKind::Fenced(language) = kind
                    && !language.is_empty()
                {
                    self.line(&sanitize(&language), Some(Style::Dim));
                }
                self.code = Some(String::new());
            }
            Tag::List(first) => {
                self.flush();
                if self.lists.is_empty() {
                    self.begin_block();
                }
                self.lists.push(first);
            }
            Tag::Item => self.item(),
            Tag::Table(_) => {
                self.begin_block();
                self.table = Some(Grid::default());
            }
            Tag::TableHead | Tag::TableRow => {
                if let Some(grid) = &mut self.table {
                    grid.rows.push(Vec::new());
                }
            }
            Tag::Emphasis => self.styles.push(Style::Emphasis),
            Tag::Strong => self.styles.push(Style::Strong),
            Tag::Strikethrough => self.styles.push(Style::Struck),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.link = Some(sanitize(&dest_url));
                self.styles.push(Style::Link);
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => {
                self.flush();
                self.gap = true;
            }
            TagEnd::Heading(_) => {
                self.flush();
                self.styles.pop();
                self.gap = true;
            }
            TagEnd::BlockQuote(_) => {
                self.flush();
                self.prefixes.pop();
                self.gap = true;
            }
            TagEnd::CodeBlock => self.end_code(),
            TagEnd::List(_) => {
                self.lists.pop();
                self.gap = self.lists.is_empty();
            }
            TagEnd::Item => {
                self.flush();
                self.prefixes.pop();
                self.gap = false;
            }
            TagEnd::Table => self.end_table(),
            TagEnd::TableCell => {
                if let Some(grid) = &mut self.table {
                    let cell = std::mem::take(&mut grid.cell);
                    if let Some(row) = grid.rows.last_mut() {
                        row.push(cell);
                    }
                }
            }
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => {
                self.styles.pop();
            }
            TagEnd::Link | TagEnd::Image => {
                self.styles.pop();
                self.end_link();
            }
            _ => {}
        }
    }

    fn text(&mut self, text: &str) {
        let text = sanitize(text);
        if let Some(code) = &mut self.code {
            code.push_str(&text);
        } else if let Some(grid) = &mut self.table {
            grid.cell.push_str(&text);
        } else {
            self.spans.push((self.styles.clone(), text));
        }
    }

    fn item(&mut self) {
        self.flush();
        self.gap = false;
        let mark = match self.lists.last_mut() {
            Some(Some(number)) => {
                let mark = format!("{number}. ");
                *number = number.saturating_add(1);
                mark
            }
            _ => "• ".to_owned(),
        };
        let rest = " ".repeat(width(&mark));
        self.indent(Some(mark), rest);
    }

    fn end_code(&mut self) {
        let code = self.code.take().unwrap_or_default();
        for line in code.trim_end_matches('\n').split('\n') {
            self.line(&format!("    {line}"), Some(Style::Code));
        }
        self.gap = true;
    }

    /// The address behind a link's text, unless the text is the address.
    fn end_link(&mut self) {
        let Some(address) = self.link.take() else {
            return;
        };
        let shown = self.spans.last().is_some_and(|(_, text)| *text == address);
        if !address.is_empty() && !shown && self.table.is_none() {
            self.spans.push((vec![Style::Dim], format!(" ({address})")));
        }
    }

    fn end_table(&mut self) {
        let grid = self.table.take().unwrap_or_default();
        let columns = grid.rows.iter().map(Vec::len).max().unwrap_or(0);
        let wide = |at: usize| {
            grid.rows
                .iter()
                .filter_map(|row| row.get(at))
                .map(|cell| width(cell))
                .max()
        };
        let widths: Vec<usize> = (0..columns).map(|at| wide(at).unwrap_or(0)).collect();
        for (number, row) in grid.rows.iter().enumerate() {
            let cells = row.iter().zip(&widths).map(|(cell, wide)| {
                let fill = wide.saturating_sub(width(cell));
                format!("{cell}{}", " ".repeat(fill))
            });
            let line = cells.collect::<Vec<_>>().join("  ");
            self.line(line.trim_end(), (number == 0).then_some(Style::Strong));
        }
        self.gap = true;
    }

    fn begin_block(&mut self) {
        self.flush();
        if std::mem::take(&mut self.gap) && !self.lines.is_empty() {
            self.line("", None);
        }
    }

    fn indent(&mut self, first: Option<String>, rest: String) {
        self.prefixes.push(Prefix { first, rest });
    }

    fn flush(&mut self) {
        let spans = std::mem::take(&mut self.spans);
        if spans.iter().all(|(_, text)| text.trim().is_empty()) {
            return;
        }
        for line in wrap_spans(&spans, self.text_columns(), self.paint) {
            self.line(&line, None);
        }
    }

    fn text_columns(&self) -> usize {
        let taken: usize = self
            .prefixes
            .iter()
            .take(MAX_PREFIXES)
            .map(|prefix| width(&prefix.rest))
            .sum();
        self.columns.saturating_sub(taken).max(MIN_TEXT_COLUMNS)
    }

    fn line(&mut self, text: &str, style: Option<Style>) {
        let mut line = String::new();
        for prefix in self.prefixes.iter_mut().take(MAX_PREFIXES) {
            let before = prefix.first.take().unwrap_or_else(|| prefix.rest.clone());
            line.push_str(&self.paint.paint(Style::Dim, &before));
        }
        match style {
            Some(style) => line.push_str(&self.paint.paint(style, text)),
            None => line.push_str(text),
        }
        self.lines.push(line.trim_end().to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_everything() {
        let text = "# Title\n\nA *word* and **two** with `code` in a sentence that is long enough to \
            be wrapped.\n\n- one\n- two\n  - inner\n    1. deep\n    2. deeper\n\n3. third\n\n> said\n> so\n\n\
            ```rust\nfn main() {}\n\nlet x;\n```\n\n| a | bb |\n|---|---|\n| longer | 1 |\n\n---\n\n\
            [site](http://x.test/) <http://y.test/>\n\n- [x] done\n\nend";
        insta::assert_snapshot!(render(text, 40, Paint::Plain), @"
        Title

        A word and two with code in a sentence
        that is long enough to be wrapped.

        • one
        • two
          • inner
            1. deep
            2. deeper

        3. third

        │ said so

        rust
            fn main() {}

            let x;

        a       bb
        longer  1

        ────────────────────────────────────────

        site (http://x.test/) http://y.test/

        • [x] done

        end
        ");
    }

    #[test]
    fn colours_surround_words_and_never_leak() {
        insta::assert_snapshot!(render("a **b c** `d`", 40, Paint::Colour).escape_debug(), @r"a \u{1b}[1mb c\u{1b}[0m \u{1b}[36md\u{1b}[0m\n");
    }

    #[test]
    fn nothing_reaches_the_terminal_by_a_detour() {
        for text in [
            "&#27;[2J&#x9b;31m",
            "`\x1b[2J`",
            "[a](http://\x1b]0;x\x07)",
            "```\n\x1b[2J\n```",
            "| \x1b[2J |\n|-|",
        ] {
            let shown = render(text, 40, Paint::Plain);
            assert!(
                !shown.contains(|c: char| c.is_control() && c != '\n'),
                "{shown:?}"
            );
        }
    }

    #[test]
    fn any_depth_is_survived() {
        let deep = format!("{}x", "> ".repeat(500));
        assert!(render(&deep, 40, Paint::Plain).contains('x'));
        let items = (0..200).fold(String::new(), |items, depth| {
            items + &"  ".repeat(depth) + "- x\n"
        });
        assert!(render(&items, 40, Paint::Plain).len() < 200_000);
    }
}
