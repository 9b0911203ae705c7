//! Reading a list of tools, from the very bytes that came. Pure.

use super::failure::McpFailure;
use super::limits::{MAX_DESCRIPTION_BYTES, MAX_LIST_BYTES, MAX_SCHEMA_BYTES, MAX_TOOLS};
use super::schema::check_schema;
use super::text::ToolText;
use bxcore::id::McpServerName;
use bxcore::tool::ToolName;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeSet;

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    result: List<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct List<'a> {
    #[serde(borrow)]
    tools: Vec<Listed<'a>>,
    #[serde(default)]
    next_cursor: Option<serde::de::IgnoredAny>,
}

/// Whatever else there is to it, hints above all, is not looked at.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Listed<'a> {
    name: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(borrow)]
    input_schema: &'a RawValue,
}

/// The tools in a server's answer to `tools/list`, given as the message that came.
///
/// One tool that can't be used spoils the list: whoever writes one of them writes all.
///
/// # Errors
/// The class of what is wrong with it.
pub fn read_list(server: &McpServerName, message: &str) -> Result<Vec<ToolText>, McpFailure> {
    let too_many = McpFailure::TooManyTools {
        max: MAX_TOOLS,
        max_bytes: MAX_LIST_BYTES,
    };
    if message.len() > MAX_LIST_BYTES {
        return Err(too_many);
    }
    let answer: Answer<'_> = serde_json::from_str(message).map_err(|_| McpFailure::Unexpected)?;
    if answer.result.next_cursor.is_some() {
        return Err(McpFailure::Pages);
    }
    if answer.result.tools.len() > MAX_TOOLS {
        return Err(too_many);
    }
    let mut names = BTreeSet::new();
    let read = answer.result.tools.into_iter().map(|listed| {
        let text = read_tool(server, listed)?;
        if names.insert(text.name.clone()) {
            Ok(text)
        } else {
            Err(McpFailure::Duplicate(text.name))
        }
    });
    read.collect()
}

fn read_tool(server: &McpServerName, listed: Listed<'_>) -> Result<ToolText, McpFailure> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"_-./".contains(&b);
    if !listed.name.bytes().all(allowed) || ToolName::of_mcp(server, &listed.name).is_err() {
        return Err(McpFailure::BadName);
    }
    let text = ToolText {
        name: listed.name,
        description: listed.description.unwrap_or_default(),
        schema: listed.input_schema.get().to_owned(),
    };
    if text.description.len() > MAX_DESCRIPTION_BYTES {
        return Err(McpFailure::Description {
            tool: text.name,
            max_bytes: MAX_DESCRIPTION_BYTES,
        });
    }
    let checked = if text.schema.len() > MAX_SCHEMA_BYTES {
        Err(format!("it is longer than {MAX_SCHEMA_BYTES} bytes"))
    } else {
        check_schema(&text.schema).map(drop)
    };
    match checked {
        Ok(()) => Ok(text),
        Err(why) => Err(McpFailure::Schema {
            tool: text.name,
            why,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &str = r#"{"type": "object"}"#;

    fn class(list: &str) -> &'static str {
        let message = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{list}}}"#);
        let server = McpServerName::new("s").unwrap();
        read_list(&server, &message).map_or_else(|failure| failure.class(), |_| "ok")
    }

    #[test]
    fn the_schema_is_kept_byte_for_byte() {
        let message = format!(
            r#"{{"id":1,"result":{{"tools":[{{"annotations":{{"readOnlyHint":true}},"inputSchema":{SCHEMA},"name":"a"}}]}}}}"#
        );
        let server = McpServerName::new("s").unwrap();
        let expect = ToolText {
            name: "a".to_owned(),
            description: String::new(),
            schema: SCHEMA.to_owned(),
        };
        assert_eq!(read_list(&server, &message).unwrap(), [expect]);
    }

    #[test]
    fn each_bad_list_has_its_class() {
        let tool = |name: &str| format!(r#"{{"name":{name},"inputSchema":{SCHEMA}}}"#);
        let tools = |tools: &[String]| format!(r#"{{"tools":[{}]}}"#, tools.join(","));
        let check = |list: String, expect: &str| assert_eq!(class(&list), expect, "{list}");
        check(tools(&[]), "ok");
        check(tools(&[tool("\"a\""), tool("\"b/c.d-E_1\"")]), "ok");
        check(tools(&[tool("\"a\""), tool("\"a\"")]), "duplicate-tool");
        for name in [
            "\"\"",
            "\"a b\"",
            "\"a\\u0007\"",
            "\"a\\n\"",
            "\"\u{e4}\"",
            "\"a:b\"",
            "\"a\\u202eb\"",
        ] {
            check(tools(&[tool(name)]), "bad-name");
        }
        check(
            tools(&[tool(&format!("\"{}\"", "x".repeat(91)))]),
            "bad-name",
        );
        let many: Vec<String> = (0..=MAX_TOOLS)
            .map(|n| tool(&format!("\"t{n}\"")))
            .collect();
        check(tools(&many), "too-many-tools");
        check(tools(&many[1..]), "ok");
        check(
            format!(r#"{{"tools":[],"x":"{}"}}"#, "x".repeat(MAX_LIST_BYTES)),
            "too-many-tools",
        );
        check(r#"{"tools":[],"nextCursor":"2"}"#.to_owned(), "pages");
        check(r#"{"tools":[],"nextCursor":null}"#.to_owned(), "ok");
        for list in [
            "{}",
            "[]",
            "null",
            r#"{"tools":{}}"#,
            r#"{"tools":[{}]}"#,
            r#"{"tools":[{"name":1,"inputSchema":{}}]}"#,
            r#"{"tools":[{"name":"a"}]}"#,
        ] {
            check(list.to_owned(), "unexpected");
        }
        let twice = format!(r#"{{"tools":[{{"name":"a","name":"b","inputSchema":{SCHEMA}}}]}}"#);
        check(twice, "unexpected");
        let long = "x".repeat(MAX_DESCRIPTION_BYTES + 1);
        check(
            format!(
                r#"{{"tools":[{{"name":"a","description":"{long}","inputSchema":{SCHEMA}}}]}}"#
            ),
            "description",
        );
        check(
            format!(
                r#"{{"tools":[{{"name":"a","inputSchema":{{"type":"object","x":"{}"}}}}]}}"#,
                "x".repeat(MAX_SCHEMA_BYTES)
            ),
            "schema",
        );
        check(r#"{"tools":[{"name":"a","inputSchema":{"type":"object","$ref":"https://evil.test/x"}}]}"#.to_owned(), "schema");
    }
}
