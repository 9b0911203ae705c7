//! Which tools fit a few words: names, descriptions and argument names, weighed by rarity.
//!
//! Deterministic: the same tools and words always give the same order.

use bxcore::tool::ToolSpec;
use std::collections::{BTreeMap, BTreeSet};

/// Words of a query beyond this many are not looked at.
const MAX_QUERY_WORDS: usize = 32;
/// A shorter word matches only as a whole.
const MIN_PREFIX_BYTES: usize = 3;

const WEIGHT_NAME: f64 = 3.0;
const WEIGHT_DESCRIPTION: f64 = 1.0;
const WEIGHT_PARAMETER: f64 = 0.5;
/// What a match of a word's beginning counts against one of the whole word.
const WEIGHT_PREFIX: f64 = 0.5;

/// Words that say nothing about a tool.
const STOP_WORDS: &[&str] = &[
    "a", "an", "and", "can", "do", "find", "for", "from", "get", "i", "in", "is", "it", "me", "my",
    "need", "of", "on", "one", "or", "some", "that", "the", "to", "tool", "use", "want", "what",
    "which", "with", "you",
];

/// The words of each tool with their weights.
#[derive(Debug, Default)]
pub(super) struct Index {
    documents: Vec<BTreeMap<String, f64>>,
}

impl Index {
    pub(super) fn new(tools: &[ToolSpec]) -> Self {
        Self {
            documents: tools.iter().map(document).collect(),
        }
    }

    /// One score a tool, in the order in which they were given.
    pub(super) fn scores(&self, query: &str) -> Vec<f64> {
        let words: BTreeSet<String> = words(query).take(MAX_QUERY_WORDS).collect();
        let mut scores = vec![0.0; self.documents.len()];
        for word in &words {
            let matches: Vec<f64> = self.documents.iter().map(|d| weight(d, word)).collect();
            let rarity = rarity(&matches);
            for (score, matched) in scores.iter_mut().zip(&matches) {
                *score += matched * rarity;
            }
        }
        scores
    }
}

fn document(tool: &ToolSpec) -> BTreeMap<String, f64> {
    let mut weights: BTreeMap<String, f64> = BTreeMap::new();
    let mut add = |text: &str, weight: f64| {
        for word in words(text) {
            let known = weights.entry(word).or_default();
            *known = known.max(weight);
        }
    };
    add(tool.name.as_str(), WEIGHT_NAME);
    add(&tool.description, WEIGHT_DESCRIPTION);
    let properties = tool.parameters.get("properties");
    for (name, _) in properties.and_then(|p| p.as_object()).into_iter().flatten() {
        add(name, WEIGHT_PARAMETER);
    }
    weights
}

fn weight(document: &BTreeMap<String, f64>, word: &str) -> f64 {
    if let Some(weight) = document.get(word) {
        return *weight;
    }
    let begins =
        |long: &str, short: &str| short.len() >= MIN_PREFIX_BYTES && long.starts_with(short);
    document
        .iter()
        .filter(|(known, _)| begins(known, word) || begins(word, known))
        .map(|(_, weight)| weight * WEIGHT_PREFIX)
        .fold(0.0, f64::max)
}

/// More for a word that few tools have.
fn rarity(matches: &[f64]) -> f64 {
    let count = |n: usize| f64::from(u32::try_from(n).unwrap_or(u32::MAX));
    let having = matches.iter().filter(|weight| **weight > 0.0).count();
    ((count(matches.len()) + 1.0) / (count(having) + 1.0)).ln() + 1.0
}

/// The stems of a text's words, in lower case; `readFile` and `read_file` are two words each.
fn words(text: &str) -> impl Iterator<Item = String> {
    let mut spaced = String::with_capacity(text.len() + 8);
    let mut previous_lower = false;
    for c in text.chars() {
        if c.is_uppercase() && previous_lower {
            spaced.push(' ');
        }
        previous_lower = c.is_lowercase();
        spaced.extend(c.to_lowercase());
    }
    let split: Vec<String> = spaced
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty() && !STOP_WORDS.contains(word))
        .map(stem)
        .collect();
    split.into_iter()
}

/// Takes the commonest English endings off, where enough is left.
fn stem(word: &str) -> String {
    const MIN_STEM_BYTES: usize = 3;
    let endings: &[(&str, &str)] = &[
        ("ies", "y"),
        ("sses", "ss"),
        ("ches", "ch"),
        ("shes", "sh"),
        ("ing", ""),
        ("ed", ""),
        ("ss", "ss"),
        ("s", ""),
    ];
    for (ending, instead) in endings {
        if let Some(start) = word.strip_suffix(ending)
            && start.len() >= MIN_STEM_BYTES
        {
            return format!("{start}{instead}");
        }
    }
    word.to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::catalog::Catalog;
    use bxcore::tool::{Repeat, ToolName, ToolSpec};
    use proptest::prelude::*;
    use serde_json::json;
    use std::collections::BTreeSet;

    fn spec(name: &str, description: &str, parameters: &[&str]) -> ToolSpec {
        let properties: serde_json::Map<_, _> = parameters
            .iter()
            .map(|p| ((*p).to_owned(), json!({"type": "string"})))
            .collect();
        ToolSpec {
            name: ToolName::new(name).unwrap(),
            description: description.to_owned(),
            parameters: json!({"type": "object", "properties": properties}),
            tags: BTreeSet::new(),
            repeat: Repeat::Safe,
            reserve: None,
        }
    }

    fn catalog() -> Catalog {
        Catalog::new(vec![
            spec(
                "read_file",
                "Reads a file of the workspace.",
                &["path", "offset"],
            ),
            spec(
                "list_dir",
                "Lists the files in a folder of the workspace.",
                &["path"],
            ),
            spec(
                "search_files",
                "Finds lines that hold a text.",
                &["pattern", "path"],
            ),
            spec("http_fetch", "Fetches a page from the web.", &["url"]),
            spec(
                "consult",
                "Asks a bigger model in the cloud one question.",
                &["question"],
            ),
            spec(
                "mcp:weather/getForecast",
                "Weather of the coming days.",
                &["city"],
            ),
        ])
    }

    #[test]
    fn words_find_the_tool_that_a_person_would_name() {
        let catalog = catalog();
        for (query, best) in [
            ("read a file", "read_file"),
            ("reading files", "read_file"),
            ("list files", "list_dir"),
            ("show the folders", "list_dir"),
            ("search for a text in files", "search_files"),
            ("fetch web page", "http_fetch"),
            ("download url", "http_fetch"),
            ("ask a question", "consult"),
            ("weather forecast", "mcp:weather/getForecast"),
            ("forecasts", "mcp:weather/getForecast"),
            ("READ_FILE", "read_file"),
        ] {
            assert_eq!(catalog.ranked(query)[0].0.name.as_str(), best, "{query}");
        }
    }

    #[test]
    fn nothing_fits_nothing() {
        let catalog = catalog();
        for query in ["", "   ", "the a of", "zzz", "\u{0}"] {
            assert!(
                catalog.ranked(query).iter().all(|(_, score)| *score == 0.0),
                "{query}"
            );
        }
        assert!(catalog.similar("zzz").is_empty());
        assert_eq!(catalog.similar("readfile_x"), ["read_file"]);
        assert!(Catalog::default().ranked("x").is_empty());
    }

    proptest! {
        #[test]
        fn an_order_depends_on_the_tools_alone(query in "[ a-zA-Z_äß\u{0}]{0,60}", turn in 0usize..6) {
            let mut specs = catalog().tools().to_vec();
            specs.rotate_left(turn);
            let other = Catalog::new(specs);
            let catalog = catalog();
            let names = |c: &Catalog| {
                c.ranked(&query).iter().map(|(t, s)| (t.name.clone(), s.to_bits())).collect::<Vec<_>>()
            };
            prop_assert_eq!(names(&catalog), names(&other));
        }
    }
}
