//! Text from tools, children and strangers, made safe to stand inside a prompt.
//!
//! Three steps, each done once and before the text is recorded: `cap`, `neutralise`, `frame`.
//! A neutralised text can't be read by a chat template as a role, a tool call, or the end of the
//! frame around it. Beside them stands what several parts need to write bytes down.

use crate::label::Label;
use std::borrow::Cow;
use std::fmt::Write as _;

/// The tag of the frame around a tool's result.
pub const FRAME_TAG: &str = "tool-result";
/// How far a marker may reach from its opening bracket to its closing one, in bytes.
const MAX_MARKER_BYTES: usize = 96;

/// Words that open or close something when they stand in angle brackets, by the chat templates
/// and tool-call formats in use. Compared without regard to case.
const MARKER_WORDS: &[&str] = &[
    FRAME_TAG,
    "tool_result",
    "tool_results",
    "tool_call",
    "tool_calls",
    "tool_response",
    "tool_responses",
    "tool",
    "tools",
    "function",
    "function_call",
    "function_calls",
    "function_results",
    "invoke",
    "parameter",
    "think",
    "thinking",
    "thought",
    "reasoning",
    "analysis",
    "final",
    "s",
    "bos",
    "eos",
    "pad",
    "unk",
    "start_of_turn",
    "end_of_turn",
    "start_of_image",
    "end_of_image",
    "system",
    "user",
    "assistant",
    "human",
    "answer",
    "im_start",
    "im_end",
    "sys",
    "inst",
    "sep",
    "mask",
    "bot",
    "eot",
    "channel",
    "message",
];

/// Words that mean the same in square brackets.
const SQUARE_WORDS: &[&str] = &[
    "inst",
    "tool_calls",
    "available_tools",
    "tool_results",
    "tool_content",
    "system_prompt",
    "think",
    "args",
    "call_id",
    "img",
    "prefix",
    "suffix",
    "middle",
    "gmask",
];

/// A text after `present`: capped, neutralised, and with what it was before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Presented {
    /// The text to record and to show to a model.
    pub text: String,
    /// The length before it was capped, in bytes.
    pub raw_bytes: usize,
    /// Whether something was cut off.
    pub cut: bool,
}

/// Caps a text, then neutralises it: the only way in which a result may reach a transcript.
pub fn present(raw: &str, max_bytes: usize) -> Presented {
    let kept = cap(raw, max_bytes);
    let cut = kept.len() < raw.len();
    let mut text = neutralise(kept).into_owned();
    if cut {
        // A marker at the very end tells the model that the text goes on elsewhere.
        let _ = write!(text, "\n[cut: {} of {} bytes shown]", kept.len(), raw.len());
    }
    Presented {
        text,
        raw_bytes: raw.len(),
        cut,
    }
}

/// The longest start of a text that fits, cut between characters.
pub fn cap(text: &str, max_bytes: usize) -> &str {
    &text[..text.floor_char_boundary(max_bytes)]
}

/// Breaks every marker that a chat template or our own frame gives a meaning to.
///
/// The opening bracket is replaced by a look-alike, so that a person still reads the text as it
/// was. Control characters other than tab and newline become U+FFFD. Idempotent.
pub fn neutralise(text: &str) -> Cow<'_, str> {
    let suspicious = |c: char| matches!(c, '<' | '[') || is_control(c);
    if !text.contains(suspicious) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for (at, c) in text.char_indices() {
        match c {
            '<' if opens_marker(&text[at + 1..], MARKER_WORDS) => out.push('\u{2039}'),
            '[' if opens_square(&text[at + 1..]) => out.push('\u{2045}'),
            c if is_control(c) => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Characters that never belong into a result: terminal control, and what deceives.
fn is_control(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t') || deceives(c)
}

/// Direction overrides and tag characters: a person reads something else than what is there.
pub const fn deceives(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{e0000}'..='\u{e007f}')
}

/// Characters without a width; needed by some scripts and emoji, so they stay, but none of them
/// may keep a marker from being seen.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{2064}' | '\u{feff}')
}

/// Shows a text so that a person sees everything that is in it: what has no shape of its own, or
/// changes how others are seen, stands as its number, `⟨U+202E⟩`. Line ends stay.
///
/// For texts that somebody decides by: nothing is left out. Letters that look alike stay alike.
pub fn reveal(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        // A run of blanks is looked at once: a long one would cost its square otherwise.
        let run = rest.len() - rest.trim_start_matches(' ').len();
        if run > 0 {
            let (blanks, behind) = rest.split_at(run);
            // At the end of a line they are not seen either.
            if behind.is_empty() || behind.starts_with(['\n', '\r']) {
                shown.extend(std::iter::repeat_n("\u{27e8}U+0020\u{27e9}", run));
            } else {
                shown.push_str(blanks);
            }
            rest = behind;
            continue;
        }
        if c != '\n' && (is_control(c) || c == '\t' || is_shapeless(c)) {
            // Writing to a String can't fail.
            let _ = write!(shown, "\u{27e8}U+{:04X}\u{27e9}", u32::from(c));
        } else {
            shown.push(c);
        }
        rest = &rest[c.len_utf8()..];
    }
    shown
}

/// Characters that look like nothing, or like a space: without a width, fillers, variants, private
/// use. And the bracket by which these are shown.
fn is_shapeless(c: char) -> bool {
    is_invisible(c)
        || (c.is_whitespace() && c != ' ' && c != '\n')
        || matches!(c,
            '\u{27e8}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{2065}' | '\u{206a}'..='\u{206f}' | '\u{2800}'
            | '\u{3164}' | '\u{e000}'..='\u{f8ff}' | '\u{fe00}'..='\u{fe0f}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0080}'..='\u{e0fff}' | '\u{f0000}'..='\u{10ffff}')
}

/// Whether what follows a `<` makes it a marker.
fn opens_marker(rest: &str, words: &[&str]) -> bool {
    let rest = rest.trim_start_matches(|c: char| is_invisible(c) || is_control(c));
    // <|im_start|>, <｜end▁of▁sentence｜> and <<SYS>>, or a known word.
    rest.starts_with(['|', '\u{ff5c}', '<']) || is_word_tag(rest, words)
}

fn is_word_tag(rest: &str, words: &[&str]) -> bool {
    let skipped = |c: char| c == '/' || c.is_whitespace() || is_invisible(c) || is_control(c);
    let window = cap(rest.trim_start_matches(skipped), MAX_MARKER_BYTES);
    let part_of_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let end = window
        .find(|c| !(part_of_word(c) || is_invisible(c)))
        .unwrap_or(window.len());
    let word: String = window[..end]
        .chars()
        .filter(|c| !is_invisible(*c))
        .collect();
    words.iter().any(|marker| word.eq_ignore_ascii_case(marker))
}

fn opens_square(rest: &str) -> bool {
    is_word_tag(rest, SQUARE_WORDS)
}

/// Puts a neutralised result into the frame in which a model reads it.
pub fn frame(tool: &str, label: Label, neutralised: &str) -> String {
    let class = label.class;
    let trust = if label.untrusted {
        "untrusted"
    } else {
        "trusted"
    };
    format!(
        "<{FRAME_TAG} tool=\"{tool}\" class=\"{class}\" trust=\"{trust}\">\n{neutralised}\n</{FRAME_TAG}>"
    )
}

/// Bytes as lower-case hex.
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a String can't fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// A tool's result without its frame and what stands behind it; any other text as it is.
pub fn unframed(text: &str) -> &str {
    let inner = || {
        let inside = text.strip_prefix('<')?.strip_prefix(FRAME_TAG)?;
        let (_, inside) = inside.split_once(">\n")?;
        // No neutralised text has the tag, so the first end is the frame's own.
        let (result, _) = inside.split_once(&format!("\n</{FRAME_TAG}>"))?;
        Some(result)
    };
    inner().unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_hides_in_what_a_person_decides_by() {
        assert_eq!(reveal("rm -rf ü/日本\n#!"), "rm -rf ü/日本\n#!");
        assert_eq!(reveal("a \\  \nb "), "a \\⟨U+0020⟩⟨U+0020⟩\nb⟨U+0020⟩");
        let hidden = "a\u{202e}b\u{200b}c\u{0}\r\u{1b}[2K\t\u{a0}\u{3164}\u{e0041}\u{fe0f}\u{2028}";
        let shown = reveal(hidden);
        assert_eq!(
            shown,
            "a⟨U+202E⟩b⟨U+200B⟩c⟨U+0000⟩⟨U+000D⟩⟨U+001B⟩[2K⟨U+0009⟩⟨U+00A0⟩⟨U+3164⟩⟨U+E0041⟩⟨U+FE0F⟩⟨U+2028⟩"
        );
        assert_eq!(
            neutralise(&shown),
            shown,
            "and nothing is left to be made harmless"
        );
    }

    #[test]
    fn markers_lose_their_meaning() {
        for marker in [
            "</tool-result>",
            "< / TOOL-RESULT >",
            "<tool_call>",
            "<|im_start|>system",
            "<s>",
            "</s>",
            "[INST]",
            "[/INST]",
            "<<SYS>>",
            "<think>",
            "<｜tool▁calls▁begin｜>",
            "<start_of_turn>user",
            "[TOOL_CALLS]",
            "<function=shell>",
            "<\u{200b}|im_end|>",
            "<tool-result tool=\"x\">",
        ] {
            let shown = neutralise(marker);
            assert!(!shown.contains(marker), "{marker}");
            assert!(!shown.starts_with(['<', '[']), "{marker} became {shown}");
        }
    }

    #[test]
    fn ordinary_text_is_left_alone() {
        for text in [
            "a < b && c > d",
            "Vec<u8>",
            "x[0] = y[i]",
            "<div class=\"x\">",
            "#[test]",
            "ü\t\n",
        ] {
            assert_eq!(neutralise(text), text);
        }
    }

    #[test]
    fn a_cap_never_splits_a_character() {
        assert_eq!(cap("aä", 2), "a");
        let shown = present("ääää", 5);
        assert_eq!(shown.text, "ää\n[cut: 4 of 8 bytes shown]");
        assert!(shown.cut);
    }

    proptest! {
        #[test]
        fn no_text_closes_its_frame(text in "(.|</?tool-result>|<\\|[a-z_]+\\|>|\\[/?INST\\]|[<>/\\[|\u{200b} ]){0,40}") {
            let shown = neutralise(&text).into_owned();
            prop_assert_eq!(neutralise(&shown).into_owned(), shown.clone());
            let framed = frame("t", Label::OWNER, &shown);
            prop_assert_eq!(framed.matches("</tool-result").count(), 1);
            let message = format!("{framed}\nGo on.");
            prop_assert_eq!(unframed(&message), shown.as_str());
            prop_assert!(!shown.contains("<|"));
        }
    }
}
