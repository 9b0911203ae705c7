//! Where in a file a key's value stands.

use std::ops::Range;
use toml::de::{DeTable, DeValue};

/// The byte span of a key's value; `key` is a path of names and indices, `backend.0.url`.
///
/// A path that goes further than the file gives the last part that is there; none if not even the
/// first is.
pub(super) fn locate(text: &str, key: &str) -> Option<Range<usize>> {
    let document = DeTable::parse(text).ok()?;
    let mut segments = key.split('.');
    let first = segments.next()?;
    let mut value = document
        .get_ref()
        .iter()
        .find(|(name, _)| name.get_ref() == first)?
        .1;
    for segment in segments {
        let next = match value.get_ref() {
            DeValue::Table(table) => table
                .iter()
                .find(|(name, _)| name.get_ref() == segment)
                .map(|(_, value)| value),
            DeValue::Array(array) => segment
                .parse()
                .ok()
                .and_then(|index: usize| array.get(index)),
            _ => None,
        };
        match next {
            Some(next) => value = next,
            None => break,
        }
    }
    Some(value.span())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "a = 1\n[b]\nc = [10, 20]\n[[d]]\nurl = \"x\"\n[[d]]\nurl = \"y\"\n";

    fn check(key: &str, expect: Option<&str>) {
        assert_eq!(locate(TEXT, key).map(|span| &TEXT[span]), expect, "{key}");
    }

    #[test]
    fn a_path_leads_to_its_value() {
        check("a", Some("1"));
        check("b.c.1", Some("20"));
        check("d.1.url", Some("\"y\""));
        check("d.1.missing", Some("[[d]]"));
        check("missing", None);
        check("", None);
    }
}
