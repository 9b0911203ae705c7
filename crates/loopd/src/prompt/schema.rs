//! The schemas that hold a reply in schema mode, in the part of JSON Schema that servers enforce.
//!
//! A server turns a schema into a grammar; what it can't turn it refuses or silently drops. So a
//! tool's own schema is cut down to what works, and its arguments are checked again when it runs.

use super::grammar::grammar;
use super::offer::Offered;
use super::request::Stage;
use crate::tools::CALL_TOOL;
use bxcore::tool::ToolSpec;
use serde_json::{Map, Value, json};

/// The longest string that a reply may put in an argument whose schema sets no limit.
pub(super) const MAX_ARGUMENT_CHARS: u64 = 4_000;
/// The most items of a list whose schema sets no limit.
pub(super) const MAX_ARGUMENT_ITEMS: u64 = 64;
/// The most characters that an answer may have.
const MAX_ANSWER_CHARS: u64 = 20_000;
/// About how many characters a token has; an answer is given room for no more than it can fill.
const CHARS_PER_TOKEN: u64 = 4;
/// The largest schema of a found tool that a reply is held to, in bytes of JSON; beyond it any
/// object can be written, and the tool says what is wrong with it.
const MAX_FOUND_SCHEMA_BYTES: usize = 4_096;
/// How deep a tool's schema is followed.
const MAX_SCHEMA_DEPTH: usize = 12;

/// The schema of a reply: a call of a core tool, of a found tool, or an answer; at the last stage
/// only an answer.
pub fn reply_schema(offered: &Offered<'_>, stage: Stage, max_tokens: u32) -> Value {
    let answer = answer_branch(max_tokens);
    match stage {
        Stage::Last | Stage::Summary | Stage::Memory | Stage::Result => answer,
        Stage::Open => {
            let mut branches = vec![answer];
            let core = offered.core.iter();
            branches
                .extend(core.map(|tool| call_branch(tool.name, grammar_schema(&tool.parameters))));
            if !offered.found.is_empty() {
                branches.push(found_branch(&offered.found));
            }
            json!({ "anyOf": branches })
        }
    }
}

/// The member of a request that holds the reply to a schema, as `,"key":value`.
///
/// Only llama-server has slots, so a request with one is read by a server that takes a grammar.
pub fn held_to(schema: &Value, slot: Option<u32>) -> String {
    if slot.is_some() {
        return format!(",\"grammar\":{}", Value::from(grammar(schema)));
    }
    let format = json!({
        "type": "json_schema",
        "json_schema": {"name": "reply", "strict": true, "schema": schema},
    });
    format!(",\"response_format\":{format}")
}

fn answer_branch(max_tokens: u32) -> Value {
    let most = u64::from(max_tokens)
        .saturating_mul(CHARS_PER_TOKEN)
        .min(MAX_ANSWER_CHARS);
    closed(json!({"answer": {"type": "string", "minLength": 1, "maxLength": most}}))
}

fn call_branch(name: &str, arguments: Value) -> Value {
    closed(json!({ name: arguments }))
}

fn found_branch(found: &[&ToolSpec]) -> Value {
    let inner: Vec<Value> = found
        .iter()
        .map(|tool| {
            let mut arguments = grammar_schema(&tool.parameters);
            if arguments.to_string().len() > MAX_FOUND_SCHEMA_BYTES {
                arguments = json!({"type": "object"});
            }
            closed(json!({"name": {"const": tool.name}, "arguments": arguments}))
        })
        .collect();
    call_branch(CALL_TOOL, json!({ "anyOf": inner }))
}

/// An object with exactly these members.
fn closed(properties: Value) -> Value {
    let required: Vec<&String> = properties
        .as_object()
        .into_iter()
        .flat_map(Map::keys)
        .collect();
    json!({
        "type": "object",
        "required": required,
        "properties": properties,
        "additionalProperties": false,
    })
}

/// A schema cut down to what servers turn into a grammar, with a bound on every string and list.
pub fn grammar_schema(schema: &Value) -> Value {
    cut_down(schema, MAX_SCHEMA_DEPTH)
}

fn cut_down(schema: &Value, depth: usize) -> Value {
    let any = json!({});
    let Some(members) = schema.as_object() else {
        return any;
    };
    // A reference would point into a document that this schema is no longer the root of.
    if depth == 0 || members.contains_key("$ref") {
        return any;
    }
    let mut kept = Map::new();
    for (key, value) in members {
        if let Some(value) = keyword(key, value, depth) {
            kept.insert(key.clone(), value);
        }
    }
    bound(&mut kept);
    Value::Object(kept)
}

fn keyword(key: &str, value: &Value, depth: usize) -> Option<Value> {
    match key {
        "type" | "enum" | "const" | "required" | "minLength" | "maxLength" | "minItems"
        | "maxItems" => Some(value.clone()),
        "minimum" | "maximum" => value.is_i64().then(|| value.clone()),
        "pattern" => {
            let anchored = |text: &str| text.starts_with('^') && text.ends_with('$');
            value.as_str().is_some_and(anchored).then(|| value.clone())
        }
        "items" => Some(cut_down(value, depth - 1)),
        "anyOf" | "oneOf" | "allOf" | "prefixItems" => {
            let list = value.as_array()?;
            Some(list.iter().map(|one| cut_down(one, depth - 1)).collect())
        }
        "properties" => {
            let members = value.as_object()?.iter();
            let cut = members.map(|(name, one)| (name.clone(), cut_down(one, depth - 1)));
            Some(Value::Object(cut.collect()))
        }
        // An open object would let a reply invent keys that the tool then refuses.
        "additionalProperties" if value.is_object() => Some(cut_down(value, depth - 1)),
        _ => None,
    }
}

fn bound(schema: &mut Map<String, Value>) {
    let free = !schema.contains_key("enum") && !schema.contains_key("const");
    match schema.get("type").and_then(Value::as_str) {
        Some("string") if free && !schema.contains_key("pattern") => {
            let most = schema.entry("maxLength").or_insert(Value::Null);
            if most.as_u64().is_none() {
                *most = json!(MAX_ARGUMENT_CHARS);
            }
        }
        Some("array") => {
            schema
                .entry("maxItems")
                .or_insert(json!(MAX_ARGUMENT_ITEMS));
        }
        Some("object") if schema.contains_key("properties") => {
            schema.entry("additionalProperties").or_insert(json!(false));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::offer::Offer;
    use super::*;
    use crate::tools::Catalog;

    #[test]
    fn a_schema_keeps_what_a_grammar_can_hold() {
        for (schema, expect) in [
            (
                json!({"type": "string"}),
                json!({"type": "string", "maxLength": 4000}),
            ),
            (
                json!({"type": "string", "maxLength": 5}),
                json!({"type": "string", "maxLength": 5}),
            ),
            (
                json!({"type": "string", "pattern": "x"}),
                json!({"type": "string", "maxLength": 4000}),
            ),
            (
                json!({"type": "string", "pattern": "^x$"}),
                json!({"type": "string", "pattern": "^x$"}),
            ),
            (
                json!({"enum": ["a"], "description": "d"}),
                json!({"enum": ["a"]}),
            ),
            (
                json!({"type": "number", "minimum": 0.5}),
                json!({"type": "number"}),
            ),
            (
                json!({"type": "integer", "minimum": 3}),
                json!({"type": "integer", "minimum": 3}),
            ),
            (json!(true), json!({})),
            (json!({"$ref": "#/$defs/x"}), json!({})),
            (
                json!({"type": "array", "items": true}),
                json!({"type": "array", "items": {}, "maxItems": 64}),
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "boolean", "default": true}}, "additionalProperties": true}),
                json!({"type": "object", "properties": {"a": {"type": "boolean"}}, "additionalProperties": false}),
            ),
            (
                json!({"anyOf": [{"type": "null"}, {"not": {}}]}),
                json!({"anyOf": [{"type": "null"}, {}]}),
            ),
        ] {
            assert_eq!(grammar_schema(&schema), expect, "{schema}");
        }
    }

    #[test]
    fn a_deep_schema_ends_somewhere() {
        let mut schema = json!({"type": "string"});
        for _ in 0..100 {
            schema = json!({"type": "array", "items": schema});
        }
        let text = grammar_schema(&schema).to_string();
        assert!(text.matches("items").count() <= MAX_SCHEMA_DEPTH, "{text}");
    }

    #[test]
    fn the_last_stage_offers_an_answer_only() {
        let catalog = Catalog::default();
        let offered = Offer::default().tools(&catalog);
        let last = reply_schema(&offered, Stage::Last, 100);
        assert_eq!(last["required"], json!(["answer"]));
        assert_eq!(last["properties"]["answer"]["maxLength"], 400);
        let open = reply_schema(&offered, Stage::Open, 100);
        let branches = open["anyOf"].as_array().unwrap();
        assert_eq!(branches.len(), 6);
        assert!(!open.to_string().contains(CALL_TOOL));
    }
}
