//! A call's arguments against its tool's schema.

use bxcore::json::parse_strict;
use serde_json::Value;

/// The longest arguments that are read.
pub const MAX_ARGUMENT_BYTES: usize = 1024 * 1024;
/// How large a stranger's pattern may be once it is made ready, in bytes.
const MAX_PATTERN_SIZE_BYTES: usize = 256 * 1024;
/// How much of what a validator says is passed on; it quotes what it was given.
const MAX_COMPLAINT_BYTES: usize = 300;

/// A tool's schema, ready to check with.
#[derive(Debug)]
pub struct Schema(jsonschema::Validator);

/// A schema that can't be used: a fault of the tool, not of a call.
#[derive(Debug, thiserror::Error)]
#[error("a tool's schema or name is wrong: {0}")]
pub struct SchemaError(String);

impl SchemaError {
    /// The tool's name is wrong.
    pub(crate) fn named(error: &bxcore::tool::InvalidToolName) -> Self {
        Self(error.to_string())
    }
}

impl Schema {
    /// Makes a JSON Schema ready.
    pub fn new(schema: &Value) -> Result<Self, SchemaError> {
        jsonschema::draft202012::new(schema)
            .map(Self)
            .map_err(|error| SchemaError(error.to_string()))
    }

    /// Makes a schema ready that somebody else wrote: its patterns are matched in linear time, and
    /// nothing is read for it that is not in it.
    pub fn of_stranger(schema: &Value) -> Result<Self, SchemaError> {
        jsonschema::options()
            .with_pattern_options(
                jsonschema::PatternOptions::regex().size_limit(MAX_PATTERN_SIZE_BYTES),
            )
            .build(schema)
            .map(Self)
            .map_err(|error| {
                let said = error.to_string();
                SchemaError(bxcore::text::cap(&said, MAX_COMPLAINT_BYTES).to_owned())
            })
    }

    fn complaint(&self, arguments: &Value) -> Option<String> {
        let error = self.0.validate(arguments).err()?;
        let place = error.instance_path().to_string();
        let place = if place.is_empty() {
            String::new()
        } else {
            format!(" at {place}")
        };
        let said = error.to_string();
        Some(format!(
            "{}{place}",
            bxcore::text::cap(&said, MAX_COMPLAINT_BYTES)
        ))
    }
}

/// What a call's arguments turned out to be.
#[derive(Debug, Clone, PartialEq)]
pub enum Arguments {
    /// None were given, as when a decision is explained.
    NotGiven,
    /// They can't be used, and why.
    Invalid(String),
    /// They fit the schema.
    Valid(Value),
}

impl Arguments {
    /// Reads arguments as a model wrote them.
    ///
    /// Strict: a repeated key, too deep a nesting, an unknown key or a wrong type is no call.
    pub fn read(text: &str, schema: &Schema) -> Self {
        if text.len() > MAX_ARGUMENT_BYTES {
            let length = text.len();
            return Self::Invalid(format!("{length} bytes, of at most {MAX_ARGUMENT_BYTES}"));
        }
        let value = match parse_strict(text) {
            Ok(value) => value,
            Err(error) => return Self::Invalid(error.to_string()),
        };
        if !value.is_object() {
            return Self::Invalid("not a JSON object".to_owned());
        }
        match schema.complaint(&value) {
            Some(complaint) => Self::Invalid(complaint),
            None => Self::Valid(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema() -> Schema {
        Schema::new(&json!({
            "type": "object",
            "properties": {
                "question": {"type": "string", "minLength": 1},
                "limit": {"type": "integer", "minimum": 1}
            },
            "required": ["question"],
            "additionalProperties": false
        }))
        .unwrap()
    }

    #[test]
    fn what_is_no_call_is_refused_and_says_why() {
        let check = |text: &str, expect: &str| {
            let Arguments::Invalid(why) = Arguments::read(text, &schema()) else {
                panic!("{text} was taken");
            };
            assert!(why.contains(expect), "{text}: {why}");
            assert!(why.len() < 500, "{why}");
        };
        check(r#"{"question":"a","question":"b"}"#, "stands twice");
        check(r#"{"Question":"a"}"#, "Question");
        check(r#"{"question":"a","x":1}"#, "x");
        check(r#"{"question":1}"#, "/question");
        check(r#"{"question":""}"#, "/question");
        check(r#"{"question":"a","limit":0}"#, "/limit");
        check("null", "not a JSON object");
        check("[]", "not a JSON object");
        check("", "not valid JSON");
        check("ask something", "not valid JSON");
        check(r#"{"question":"a"} {"question":"b"}"#, "not valid JSON");
        check(
            &format!("{{\"question\":{}", "[".repeat(10_000)),
            "nested deeper",
        );
        check(
            &format!("{{\"question\":\"{}\"}}", "x".repeat(MAX_ARGUMENT_BYTES)),
            "at most",
        );
        check(
            &format!("{{\"{}\":1,\"question\":\"a\"}}", "k".repeat(5000)),
            "kkk",
        );
    }

    #[test]
    fn what_fits_is_read() {
        let read = Arguments::read(r#" {"limit": 2, "question": "a\u0000"} "#, &schema());
        assert_eq!(
            read,
            Arguments::Valid(json!({"question": "a\u{0}", "limit": 2}))
        );
    }

    #[test]
    fn a_wrong_schema_is_found_when_the_tool_is_made() {
        assert!(Schema::new(&json!({"type": "objekt"})).is_err());
    }
}
