//! A reply's schema as a grammar in llama-server's notation (GBNF).
//!
//! Given a schema, that server writes a grammar of its own, which lets a model put white space
//! between tokens and a code fence around the whole, and then leaves the fence out of what it gives
//! back: the next request no longer repeats what was generated, and the cache is lost from there.
//! This grammar admits compact JSON alone, so what comes back is what was generated, in fewer tokens.

use super::schema::{MAX_ARGUMENT_CHARS, MAX_ARGUMENT_ITEMS};
use serde_json::{Map, Value};

/// The most members that may be missing and still have an order: each way to begin is written out.
const MAX_FREE_MEMBERS: usize = 16;

/// What every grammar ends with: the terminals. A lone half of a surrogate pair is not admitted,
/// since no strict parser takes it.
const TERMINALS: &str = r#"
char ::= [^"\\\x7F\x00-\x1F] | [\\] (["\\bfnrt/] | "u" ([0-9a-cA-CefEF] [0-9a-fA-F]{3} | [dD] [0-7] [0-9a-fA-F]{2}))
whole ::= "0" | [1-9] [0-9]{0,15}
number ::= "-"? whole ("." [0-9]{1,16})? ([eE] [-+]? [0-9]{1,3})?
member ::= string ":" value
value ::= object | array | string | number | "true" | "false" | "null"
"#;

/// The grammar of all that fits a schema, as far as a grammar can tell. Keywords that it can't hold
/// (patterns, ranges) are left to whoever checks the value.
pub fn grammar(schema: &Value) -> String {
    let root = expression(schema);
    let unbounded = Map::new();
    let (string, array) = (of_type("string", &unbounded), array(&unbounded));
    let more = MAX_ARGUMENT_ITEMS - 1;
    let object = format!(r#""{{" (member ("," member){{0,{more}}})? "}}""#);
    format!(
        "root ::= {root}\nstring ::= {string}\narray ::= {array}\nobject ::= {object}{TERMINALS}"
    )
}

fn expression(schema: &Value) -> String {
    let Some(schema) = schema.as_object() else {
        return "value".to_owned();
    };
    if let Some(value) = schema.get("const") {
        return literal(&value.to_string());
    }
    let list = |key: &str| schema.get(key).and_then(Value::as_array);
    if let Some(values) = list("enum") {
        return any_of(values.iter().map(|value| literal(&value.to_string())));
    }
    if let Some(branches) = list("anyOf").or_else(|| list("oneOf")) {
        return any_of(branches.iter().map(expression));
    }
    match schema.get("type") {
        Some(Value::String(kind)) => of_type(kind, schema),
        Some(Value::Array(kinds)) => any_of(
            kinds
                .iter()
                .filter_map(Value::as_str)
                .map(|kind| of_type(kind, schema)),
        ),
        _ if schema.contains_key("properties") => object(schema),
        _ => "value".to_owned(),
    }
}

fn of_type(kind: &str, schema: &Map<String, Value>) -> String {
    match kind {
        "string" => {
            let (least, most) = bounds(schema, "minLength", "maxLength", MAX_ARGUMENT_CHARS);
            format!(r#""\"" char{{{least},{most}}} "\"""#)
        }
        "integer" => {
            let minimum = schema.get("minimum").and_then(Value::as_i64);
            let sign = if minimum.is_some_and(|minimum| minimum >= 0) {
                ""
            } else {
                r#""-"? "#
            };
            format!("{sign}whole")
        }
        "number" => "number".to_owned(),
        "boolean" => r#"("true" | "false")"#.to_owned(),
        "null" => r#""null""#.to_owned(),
        "array" => array(schema),
        "object" => object(schema),
        _ => "value".to_owned(),
    }
}

fn array(schema: &Map<String, Value>) -> String {
    let (least, most) = bounds(schema, "minItems", "maxItems", MAX_ARGUMENT_ITEMS);
    let item = schema.get("items").map_or("value".to_owned(), expression);
    if most == 0 {
        return r#""[]""#.to_owned();
    }
    let rest = format!(
        r#"{item} ("," {item}){{{},{}}}"#,
        least.saturating_sub(1),
        most - 1
    );
    let items = if least == 0 {
        format!("({rest})?")
    } else {
        rest
    };
    format!(r#""[" {items} "]""#)
}

/// The required members in their order, then those of the others that are there.
fn object(schema: &Map<String, Value>) -> String {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return "object".to_owned();
    };
    let required = schema.get("required").and_then(Value::as_array);
    let is_required = |name: &str| {
        required.is_some_and(|names| names.iter().any(|one| one.as_str() == Some(name)))
    };
    let member = |(name, value): (&String, &Value)| {
        let key = literal(&format!("{}:", Value::from(name.as_str())));
        format!("{key} {}", expression(value))
    };
    let (needed, free): (Vec<_>, Vec<_>) =
        properties.iter().partition(|(name, _)| is_required(name));
    let needed: Vec<String> = needed.into_iter().map(member).collect();
    let free: Vec<String> = free.into_iter().map(member).collect();
    if free.len() > MAX_FREE_MEMBERS {
        return "object".to_owned();
    }
    let members = if needed.is_empty() {
        first_of(&free)
    } else {
        needed.join(r#" "," "#) + &each_may_follow(&free)
    };
    if members.is_empty() {
        return r#""{}""#.to_owned();
    }
    format!(r#""{{" {members} "}}""#)
}

/// Any of the members, in their order, of which none has to be there.
fn first_of(members: &[String]) -> String {
    let starts: Vec<String> = (0..members.len())
        .map(|at| members[at].clone() + &each_may_follow(&members[at + 1..]))
        .collect();
    if starts.is_empty() {
        return String::new();
    }
    format!("({})?", starts.join(" | "))
}

fn each_may_follow(members: &[String]) -> String {
    members.iter().fold(String::new(), |text, member| {
        text + r#" ("," "# + member + ")?"
    })
}

fn any_of(branches: impl Iterator<Item = String>) -> String {
    let branches: Vec<String> = branches.collect();
    match branches.as_slice() {
        [] => "value".to_owned(),
        [one] => one.clone(),
        _ => format!("({})", branches.join(" | ")),
    }
}

fn bounds(schema: &Map<String, Value>, least: &str, most: &str, default: u64) -> (u64, u64) {
    let number = |key: &str| schema.get(key).and_then(Value::as_u64);
    let least = number(least).unwrap_or(0);
    (least, number(most).unwrap_or(default).max(least))
}

/// A piece of JSON as it stands. Compact JSON has no control characters, so two escapes are enough.
fn literal(json: &str) -> String {
    let escaped = json.replace('\\', r"\\").replace('"', r#"\""#);
    format!("\"{escaped}\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(schema: &Value, expect: &str) {
        assert_eq!(expression(schema), expect, "{schema}");
    }

    #[test]
    fn each_kind_of_schema_has_its_expression() {
        check(&json!({}), "value");
        check(&json!(true), "value");
        check(&json!({"const": "a\"b\\"}), r#""\"a\\\"b\\\\\"""#);
        check(&json!({"enum": ["a", 1]}), r#"("\"a\"" | "1")"#);
        check(&json!({"type": "string"}), r#""\"" char{0,4000} "\"""#);
        check(
            &json!({"type": "string", "minLength": 1, "maxLength": 5}),
            r#""\"" char{1,5} "\"""#,
        );
        check(&json!({"type": "integer"}), r#""-"? whole"#);
        check(&json!({"type": "integer", "minimum": 1}), "whole");
        check(
            &json!({"type": ["boolean", "null"]}),
            r#"(("true" | "false") | "null")"#,
        );
        check(
            &json!({"type": "array", "items": {"type": "number"}, "maxItems": 3}),
            r#""[" (number ("," number){0,2})? "]""#,
        );
        check(
            &json!({"type": "array", "minItems": 2, "maxItems": 2}),
            r#""[" value ("," value){1,1} "]""#,
        );
        check(&json!({"type": "object"}), "object");
        check(&json!({"type": "object", "properties": {}}), r#""{}""#);
        check(
            &json!({"anyOf": [{"type": "null"}, {}]}),
            r#"("null" | value)"#,
        );
    }

    #[test]
    fn what_a_schema_leaves_open_is_bounded_as_well() {
        let grammar = grammar(&json!({}));
        for rule in [
            "root ::= value\n",
            "string ::= \"\\\"\" char{0,4000} \"\\\"\"\n",
            "array ::= \"[\" (value (\",\" value){0,63})? \"]\"\n",
            "object ::= \"{\" (member (\",\" member){0,63})? \"}\"\n",
        ] {
            assert!(grammar.contains(rule), "{rule}\n{grammar}");
        }
    }

    #[test]
    fn members_keep_their_order_and_what_may_be_missing_follows() {
        let number = || json!({"type": "number"});
        check(
            &json!({"properties": {"a": number(), "b": number(), "c": number()}, "required": ["c", "a"]}),
            r#""{" "\"a\":" number "," "\"c\":" number ("," "\"b\":" number)? "}""#,
        );
        check(
            &json!({"properties": {"a": number(), "b": number()}}),
            r#""{" ("\"a\":" number ("," "\"b\":" number)? | "\"b\":" number)? "}""#,
        );
    }
}
