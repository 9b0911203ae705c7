//! Which schemas of strangers are used: those that are checked with in bounded time, and that refer
//! to nothing outside of themselves. Pure.

use super::limits::{MAX_PATTERN_BYTES, MAX_PATTERNS, MAX_SCHEMA_DEPTH, MAX_SCHEMA_PARTS};
use crate::decision::Schema;
use bxcore::json::parse_strict;
use serde_json::Value;

/// What `$schema` may say; without it the last is taken.
const DIALECTS: &[&str] = &[
    "http://json-schema.org/draft-07/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema",
];

/// Words that change what a reference leads to, or lead where it can't be seen before.
const OTHER_REFERENCES: &[&str] = &[
    "$id",
    "$anchor",
    "$dynamicRef",
    "$dynamicAnchor",
    "$recursiveRef",
    "$recursiveAnchor",
];

/// Reads a schema as a server wrote it, and makes it ready.
///
/// # Errors
/// Why it is not used.
pub fn check_schema(text: &str) -> Result<(Value, Schema), String> {
    let schema = parse_strict(text).map_err(|error| error.to_string())?;
    if schema.get("type") != Some(&Value::String("object".to_owned())) {
        return Err("it is not the schema of an object".to_owned());
    }
    let mut walk = Walk {
        root: &schema,
        parts: 0,
        patterns: 0,
        open: Vec::new(),
    };
    walk.visit(&schema, 0)?;
    let ready = Schema::of_stranger(&schema).map_err(|error| error.to_string())?;
    Ok((schema, ready))
}

/// A walk through a schema in which each reference is followed.
struct Walk<'a> {
    root: &'a Value,
    parts: usize,
    patterns: usize,
    /// The references that are being followed.
    open: Vec<&'a str>,
}

impl<'a> Walk<'a> {
    fn visit(&mut self, part: &'a Value, depth: usize) -> Result<(), String> {
        self.parts += 1;
        if self.parts > MAX_SCHEMA_PARTS || depth > MAX_SCHEMA_DEPTH {
            return Err("it is too large, each reference in it followed".to_owned());
        }
        match part {
            Value::Array(items) => items
                .iter()
                .try_for_each(|item| self.visit(item, depth + 1)),
            Value::Object(members) => members
                .iter()
                .try_for_each(|(word, value)| self.member(word, value, depth)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
        }
    }

    fn member(&mut self, word: &str, value: &'a Value, depth: usize) -> Result<(), String> {
        match (word, value) {
            ("$ref", Value::String(target)) => self.follow(target, depth),
            ("pattern", Value::String(pattern)) => self.pattern(pattern),
            ("patternProperties", Value::Object(members)) => {
                members
                    .keys()
                    .try_for_each(|pattern| self.pattern(pattern))?;
                self.visit(value, depth + 1)
            }
            ("$schema", Value::String(dialect)) => {
                let dialect = dialect.trim_end_matches('#');
                if depth == 0 && DIALECTS.contains(&dialect) {
                    return Ok(());
                }
                Err("it is written in a dialect that is not known here".to_owned())
            }
            (word, Value::String(_) | Value::Bool(_)) if OTHER_REFERENCES.contains(&word) => {
                Err(format!("`{word}` is not followed"))
            }
            _ => self.visit(value, depth + 1),
        }
    }

    /// A pattern is small by itself and may be large once it is made ready, all the more so many.
    fn pattern(&mut self, pattern: &str) -> Result<(), String> {
        self.patterns += 1;
        if self.patterns > MAX_PATTERNS || pattern.len() > MAX_PATTERN_BYTES {
            return Err("it has too many patterns, or one that is too long".to_owned());
        }
        Ok(())
    }

    fn follow(&mut self, target: &'a str, depth: usize) -> Result<(), String> {
        let within = target.strip_prefix('#').filter(|path| !path.contains('%'));
        let path = within.ok_or("it refers to something outside of itself")?;
        if self.open.contains(&path) {
            return Err("it refers to itself without end".to_owned());
        }
        let found = self.root.pointer(path);
        let found = found.ok_or("a reference in it leads nowhere")?;
        self.open.push(path);
        self.visit(found, depth + 1)?;
        self.open.pop();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn why(schema: &Value) -> String {
        check_schema(&schema.to_string()).map_or_else(|why| why, |_| "ok".to_owned())
    }

    #[test]
    fn what_is_bounded_and_refers_to_itself_alone_is_used() {
        for schema in [
            json!({"type": "object"}),
            json!({"type": "object", "$schema": "http://json-schema.org/draft-07/schema#"}),
            json!({"type": "object", "$schema": "https://json-schema.org/draft/2020-12/schema"}),
            json!({"type": "object", "properties": {"$ref": {"type": "string"}, "$id": {"type": "string"}}}),
            json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}, "b": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "string", "pattern": "^a+$"}}}),
        ] {
            assert_eq!(why(&schema), "ok", "{schema}");
        }
    }

    #[test]
    fn patterns_are_bounded_in_number_length_and_size() {
        let many: serde_json::Map<String, Value> = (0..=MAX_PATTERNS)
            .map(|n| (format!("p{n}"), json!({"pattern": "a"})))
            .collect();
        let long = "a".repeat(MAX_PATTERN_BYTES + 1);
        for properties in [
            json!(many),
            json!({"a": {"pattern": long}}),
            json!({"a": {"patternProperties": {long.clone(): {}}}}),
            // Short, and megabytes once it is made ready.
            json!({"a": {"pattern": r"(\w{100}){100}"}}),
        ] {
            let schema = json!({"type": "object", "properties": properties});
            assert_ne!(why(&schema), "ok", "{schema}");
        }
    }

    #[test]
    fn the_rest_is_refused_and_says_why() {
        let check = |schema: Value, expect: &str| {
            let why = why(&schema);
            assert!(why.contains(expect), "{schema}: {why}");
        };
        let with = |part: Value| json!({"type": "object", "properties": {"a": part}});
        check(json!([]), "not the schema of an object");
        check(json!({"type": "string"}), "not the schema of an object");
        for target in [
            "https://evil.test/s",
            "http://127.0.0.1/s",
            "file:///etc/passwd",
            "other.json",
            "//evil.test/s",
            "#%2F",
        ] {
            check(with(json!({"$ref": target})), "outside");
        }
        check(with(json!({"$ref": "#/nowhere"})), "leads nowhere");
        check(with(json!({"$ref": "#anchor"})), "leads nowhere");
        check(with(json!({"$ref": "#"})), "without end");
        check(with(json!({"$ref": "#/properties/a"})), "without end");
        check(with(json!({"$id": "https://evil.test/"})), "`$id`");
        check(with(json!({"$dynamicRef": "#x"})), "`$dynamicRef`");
        check(
            json!({"type": "object", "$schema": "https://evil.test/"}),
            "dialect",
        );
        check(
            with(json!({"$schema": "https://json-schema.org/draft/2020-12/schema"})),
            "dialect",
        );
        check(with(json!({"type": "strung"})), "wrong");
        check(with(json!({"type": "string", "pattern": "(a"})), "wrong");
        check(
            with(json!({"type": "string", "pattern": "(a+)\\1"})),
            "wrong",
        );
    }

    #[test]
    fn a_schema_that_grows_by_its_references_is_refused() {
        let mut defs = serde_json::Map::new();
        defs.insert("d0".to_owned(), json!({"type": "string"}));
        for level in 1..30 {
            let below = json!({"$ref": format!("#/$defs/d{}", level - 1)});
            defs.insert(format!("d{level}"), json!({"allOf": [below, below]}));
        }
        let schema = json!({"type": "object", "$defs": defs});
        assert!(why(&schema).contains("too large"), "{}", why(&schema));
        let deep =
            "{\"type\":\"object\",\"properties\":{\"a\":".repeat(20) + "true" + &"}}".repeat(20);
        assert!(check_schema(&deep).is_err());
        let twice = r#"{"type":"object","type":"object"}"#;
        assert!(check_schema(twice).unwrap_err().contains("twice"));
    }
}
