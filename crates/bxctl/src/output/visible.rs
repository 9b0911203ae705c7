//! Shows text so that nothing in it is hidden: for what a person reads in order to trust it. Pure.

/// Marks that change how other text is shown, or show nothing at all.
const HIDDEN: &[std::ops::RangeInclusive<char>] = &[
    '\u{ad}'..='\u{ad}',
    '\u{34f}'..='\u{34f}',
    '\u{61c}'..='\u{61c}',
    '\u{115f}'..='\u{1160}',
    '\u{17b4}'..='\u{17b5}',
    '\u{180b}'..='\u{180f}',
    '\u{200b}'..='\u{200f}',
    '\u{2028}'..='\u{202e}',
    '\u{2060}'..='\u{206f}',
    '\u{3164}'..='\u{3164}',
    '\u{fe00}'..='\u{fe0f}',
    '\u{feff}'..='\u{feff}',
    '\u{ffa0}'..='\u{ffa0}',
    '\u{fff0}'..='\u{fffb}',
    '\u{e0000}'..='\u{e0fff}',
];

/// The text with each control character and hidden mark written out; line ends stay, and a
/// backslash is doubled, so that nothing looks like what it is not.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        let is_hidden = HIDDEN.iter().any(|range| range.contains(&character));
        match character {
            '\n' => shown.push('\n'),
            '\\' => shown.push_str("\\\\"),
            _ if is_hidden || character.is_control() => {
                shown.extend(character.escape_unicode());
            }
            _ => shown.push(character),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::visible;

    #[test]
    fn nothing_is_hidden_and_nothing_is_acted_on() {
        for (text, expect) in [
            (
                "plain\ntext, \u{e4}\u{1f600}",
                "plain\ntext, \u{e4}\u{1f600}",
            ),
            ("a\u{1b}[2Jb", "a\\u{1b}[2Jb"),
            ("a\rb\tc\0", "a\\u{d}b\\u{9}c\\u{0}"),
            ("\u{202e}evil", "\\u{202e}evil"),
            ("a\u{200b}b", "a\\u{200b}b"),
            ("x\u{e0041}\u{e0042}", "x\\u{e0041}\\u{e0042}"),
            ("\\u{1b}", "\\\\u{1b}"),
        ] {
            assert_eq!(visible(text), expect);
        }
    }
}
