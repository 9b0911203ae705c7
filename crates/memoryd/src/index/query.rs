//! From what somebody typed to what the index is asked. Pure.
//!
//! Nothing in a query has a meaning: it is taken apart into words, and each is quoted.

/// The most words of a query that are looked for.
pub const MAX_TERMS: usize = 16;
/// The longest word that is looked for, in bytes; longer ones are cut.
pub const MAX_TERM_BYTES: usize = 64;
/// From how many characters on a word also finds those that begin with it.
const MIN_PREFIX_CHARS: usize = 4;

/// The words of a query, each as an expression of its own for FTS5.
pub fn terms(query: &str) -> Vec<String> {
    let mut terms: Vec<String> = Vec::new();
    let words = query
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty());
    for word in words {
        // Case and accents are the index's to overlook.
        let word = bxcore::text::cap(word, MAX_TERM_BYTES);
        // Letters and digits alone: nothing that could end the quotes.
        let star = if word.chars().count() < MIN_PREFIX_CHARS {
            ""
        } else {
            "*"
        };
        let term = format!("\"{word}\"{star}");
        if !terms.contains(&term) {
            terms.push(term);
        }
        if terms.len() == MAX_TERMS {
            break;
        }
    }
    terms
}

/// The expression that any of these words satisfies.
pub(super) fn any_of(terms: &[String]) -> String {
    terms.join(" OR ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_are_quoted_and_operators_are_words() {
        for (query, expect) in [
            ("", ""),
            ("  \"' ( ) * : ^ - ", ""),
            ("cat NOT dog", "\"cat\" OR \"NOT\" OR \"dog\""),
            (
                "NEAR(a b) text:x",
                "\"NEAR\"* OR \"a\" OR \"b\" OR \"text\"* OR \"x\"",
            ),
            ("Straße, Straße!", "\"Straße\"*"),
            ("a\"b", "\"a\" OR \"b\""),
        ] {
            assert_eq!(any_of(&terms(query)), expect, "{query}");
        }
        let many: Vec<String> = (0..100).map(|n| format!("w{n}")).collect();
        assert_eq!(terms(&many.join(" ")).len(), MAX_TERMS);
        assert!(terms(&"x".repeat(10_000))[0].len() <= MAX_TERM_BYTES + 3);
    }

    proptest! {
        #[test]
        fn no_query_leaves_its_quotes(query in "\\PC*|(\"|'|\\*|\u{0}|[a-z]|\\PC){0,40}") {
            for term in terms(&query) {
                let inner = term.trim_end_matches('*');
                let inner = inner.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap();
                prop_assert!(inner.chars().all(char::is_alphanumeric), "{}", term);
            }
        }
    }
}
