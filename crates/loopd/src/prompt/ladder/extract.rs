//! Finds JSON within text that a model put around it.

use bxcore::json::parse_strict;
use serde_json::Value;

/// How many places in a text are tried.
const MAX_CANDIDATES: usize = 32;
/// How far a text is looked through, in bytes.
const MAX_SCANNED_BYTES: usize = 256 * 1024;

/// The objects and arrays that stand in a text and are strict JSON, the first one first. What
/// stands inside of one that is given is not given again; what stands inside of an array is.
pub(in crate::prompt) fn values(text: &str) -> impl Iterator<Item = Value> {
    let text = bxcore::text::cap(text, MAX_SCANNED_BYTES);
    let mut from = 0;
    let mut tried = 0;
    std::iter::from_fn(move || {
        while tried < MAX_CANDIDATES {
            let start = from + text.get(from..)?.find(['{', '['])?;
            tried += 1;
            let end = balanced_end(&text[start..]).map(|length| start + length);
            let parsed = end.and_then(|end| parse_strict(&text[start..end]).ok());
            match (parsed, end) {
                (Some(value), Some(end)) if value.is_object() => {
                    from = end;
                    return Some(value);
                }
                (Some(value), _) => {
                    from = start + 1;
                    return Some(value);
                }
                (None, _) => from = start + 1,
            }
        }
        None
    })
}

/// Like [`values`], but objects only.
pub(in crate::prompt) fn objects(text: &str) -> impl Iterator<Item = Value> {
    values(text).filter(Value::is_object)
}

/// The length of the text from an opening bracket to the one that closes it.
fn balanced_end(text: &str) -> Option<usize> {
    let mut depth = 0usize;
    let mut in_string = false;
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        if in_string {
            in_string = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn json_is_found_where_it_stands() {
        for (text, expect) in [
            (
                r#"a {"x":"}"} b [1] {"#,
                vec![json!({"x": "}"}), json!([1])],
            ),
            (r#"{"a":{"b":1}}"#, vec![json!({"a": {"b": 1}})]),
            (r#"{oops {"a":"\"}"}"#, vec![json!({"a": "\"}"})]),
            (r#"[{"a":1}]"#, vec![json!([{"a": 1}]), json!({"a": 1})]),
            ("none", vec![]),
            ("", vec![]),
        ] {
            assert_eq!(values(text).collect::<Vec<_>>(), expect, "{text}");
        }
    }
}
