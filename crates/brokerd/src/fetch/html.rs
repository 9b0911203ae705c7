//! The words of a page. Pure; reads any text in one pass and fails at none.

/// Elements whose content is not for readers.
const HIDDEN: &[&str] = &[
    "script", "style", "noscript", "template", "svg", "iframe", "object",
];
/// Elements that begin and end a line.
const BLOCKS: &[&str] = &[
    "address",
    "article",
    "aside",
    "blockquote",
    "br",
    "dd",
    "div",
    "dl",
    "dt",
    "figure",
    "footer",
    "form",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hr",
    "li",
    "main",
    "nav",
    "ol",
    "p",
    "pre",
    "section",
    "table",
    "title",
    "tr",
    "ul",
];
/// The longest character reference that is looked for, in bytes.
const MAX_REFERENCE_BYTES: usize = 12;

/// What a page of HTML says, one block a line, without markup, scripts and styles.
pub fn text_of(html: &str) -> String {
    let mut words = Words::default();
    let mut rest = html;
    while let Some(open) = rest.find('<') {
        words.add(&rest[..open]);
        rest = &rest[open..];
        if let Some(comment) = rest.strip_prefix("<!--") {
            rest = after(comment, "-->");
            continue;
        }
        let Some(name) = tag_name(rest) else {
            words.add("<");
            rest = &rest[1..];
            continue;
        };
        let is_end = rest.starts_with("</");
        rest = after_tag(rest);
        if BLOCKS.contains(&&*name) {
            words.end_line();
        } else if name == "td" || name == "th" {
            words.blank();
        } else if !is_end && HIDDEN.contains(&&*name) {
            rest = after_element(rest, &name);
        }
    }
    words.add(rest);
    words.end_line();
    words.text
}

#[derive(Default)]
struct Words {
    text: String,
    /// Whether a blank belongs before the next word.
    blank: bool,
}

impl Words {
    fn add(&mut self, raw: &str) {
        for c in unescaped(raw).chars() {
            if c.is_whitespace() || c == '\u{a0}' {
                self.blank();
            } else if !c.is_control() {
                if std::mem::take(&mut self.blank) {
                    self.text.push(' ');
                }
                self.text.push(c);
            }
        }
    }

    fn blank(&mut self) {
        self.blank = !self.text.is_empty() && !self.text.ends_with('\n');
    }

    fn end_line(&mut self) {
        self.blank = false;
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
    }
}

/// The name of the tag that begins here, in lower case; also of `<!doctype>` and the like.
fn tag_name(text: &str) -> Option<String> {
    let text = text.strip_prefix('<')?;
    let text = text.strip_prefix(['/', '!', '?']).unwrap_or(text);
    let end = text
        .find(|c: char| !c.is_ascii_alphanumeric())
        .unwrap_or(text.len());
    let name = &text[..end];
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic());
    is_name.then(|| name.to_ascii_lowercase())
}

/// What follows a tag; a `>` within quotes does not end it.
fn after_tag(text: &str) -> &str {
    let mut quote = None;
    for (at, byte) in text.bytes().enumerate() {
        match (quote, byte) {
            (None, b'>') => return &text[at + 1..],
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), byte) if open == byte => quote = None,
            _ => {}
        }
    }
    ""
}

/// What follows an element's end; an element that never ends hides the rest.
fn after_element<'a>(text: &'a str, name: &str) -> &'a str {
    let mut rest = text;
    while let Some(at) = rest.find("</") {
        rest = &rest[at..];
        if tag_name(rest).is_some_and(|found| found == name) {
            return after_tag(rest);
        }
        rest = &rest[2..];
    }
    ""
}

fn after<'a>(text: &'a str, end: &str) -> &'a str {
    text.split_once(end).map_or("", |(_, rest)| rest)
}

/// The text with its character references read.
fn unescaped(raw: &str) -> String {
    let mut text = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.find('&') {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = rest
            .bytes()
            .take(MAX_REFERENCE_BYTES)
            .position(|b| b == b';');
        let read = end.and_then(|end| Some((reference(&rest[1..end])?, end)));
        match read {
            Some((c, end)) => {
                text.push(c);
                rest = &rest[end + 1..];
            }
            None => {
                text.push('&');
                rest = &rest[1..];
            }
        }
    }
    text.push_str(rest);
    text
}

fn reference(name: &str) -> Option<char> {
    if let Some(number) = name.strip_prefix('#') {
        let code = match number.strip_prefix(['x', 'X']) {
            Some(digits) => u32::from_str_radix(digits, 16),
            None => number.parse(),
        };
        return code.ok().and_then(char::from_u32);
    }
    Some(match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        "nbsp" => '\u{a0}',
        "ndash" => '–',
        "mdash" => '—',
        "hellip" => '…',
        "copy" => '©',
        "euro" => '€',
        _ => return None,
    })
}
