//! The nearest known word for one that isn't known. Pure.

/// How alike two words must be, from 0 to 1, for one to be suggested for the other.
const MIN_LIKENESS: f64 = 0.7;

/// How many known words are listed when none is near.
const MAX_LISTED: usize = 24;

/// For an error about an unknown field or variant: what is unknown, and a hint.
///
/// Works on serde's wording, "unknown field `x`, expected one of `a`, `b`": the only place where
/// the known words are told.
pub(super) fn suggestion(message: &str) -> Option<(&str, String)> {
    let (unknown, expected) = message.split_once(", expected ")?;
    if !unknown.starts_with("unknown ") {
        return None;
    }
    let written = in_ticks(unknown).next()?;
    let known: Vec<&str> = in_ticks(expected).collect();
    (!known.is_empty()).then(|| (unknown, instead_of(written, &known)))
}

/// What to write instead of a word that isn't known: the nearest of the known ones, or all of them.
pub fn instead_of(written: &str, known: &[&str]) -> String {
    if let Some(nearest) = nearest(written, known) {
        return format!("did you mean `{nearest}`?");
    }
    let listed = known.iter().take(MAX_LISTED);
    let listed: Vec<String> = listed.map(|word| format!("`{word}`")).collect();
    format!("known here: {}", listed.join(", "))
}

/// The known word most like the written one, if any is like it at all.
fn nearest<'a>(written: &str, known: &[&'a str]) -> Option<&'a str> {
    // Word order and separators are the usual slips beside typing errors.
    let plain = |word: &str| word.to_lowercase().replace(['-', ' '], "_");
    let written = plain(written);
    known
        .iter()
        .map(|word| (strsim::jaro_winkler(&written, &plain(word)), *word))
        .filter(|(likeness, _)| *likeness >= MIN_LIKENESS)
        .max_by(|(left, _), (right, _)| left.total_cmp(right))
        .map(|(_, word)| word)
}

fn in_ticks(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(message: &str, expect: Option<&str>) {
        let hint = suggestion(message).map(|(_, hint)| hint);
        assert_eq!(hint.as_deref(), expect, "{message}");
    }

    #[test]
    fn the_nearest_word_is_suggested() {
        let three = "expected one of `tool_iterations`, `tool_result_bytes`, `compact`";
        check(
            &format!("unknown field `tool_iteration`, {three}"),
            Some("did you mean `tool_iterations`?"),
        );
        check(
            &format!("unknown field `Compact`, {three}"),
            Some("did you mean `compact`?"),
        );
        check(
            &format!("unknown field `tool-result-bytes`, {three}"),
            Some("did you mean `tool_result_bytes`?"),
        );
        check(
            "unknown variant `alwys`, expected `never` or `always`",
            Some("did you mean `always`?"),
        );
    }

    #[test]
    fn with_nothing_near_the_known_words_are_listed() {
        check(
            "unknown field `zzz`, expected `name` or `url`",
            Some("known here: `name`, `url`"),
        );
        check("unknown field `x`, there are no fields", None);
        check("invalid type: string \"a\", expected u32", None);
    }
}
