//! Messages of one mode in the form of the other, for a session whose backend changed.
//!
//! The recorded messages stay as they are; only what the new epoch sends is written anew, the
//! same way each time.

use super::conversation::Kind;
use super::message::{answer_text, sendable, wire_id};
use super::reply::Reply;
use crate::tools::{CALL_TOOL, core_tool};
use bxcore::chat::{RawMessage, ToolCall};
use bxcore::id::CallId;
use bxcore::transcript::ToolMode;
use serde_json::{Value, json};

/// One message, given as its JSON, in the form of a mode that it was not written for.
pub(super) fn message(json: &[u8], kind: Kind, after: ToolMode) -> RawMessage {
    let parsed: Value = serde_json::from_slice(json).unwrap_or(Value::Null);
    let content = parsed["content"].as_str().unwrap_or_default();
    match (kind, after) {
        (Kind::User, _) | (Kind::Tool { .. }, ToolMode::Schema) => RawMessage::user(content),
        (Kind::Tool { call }, ToolMode::Native) => RawMessage::tool(&wire_id(call), content),
        (
            Kind::Assistant {
                first_call: Some(_),
                ..
            },
            ToolMode::Schema,
        ) => RawMessage::assistant(&as_lines(&parsed["tool_calls"]), &[]),
        (
            Kind::Assistant {
                first_call: Some(first),
                calls,
            },
            ToolMode::Native,
        ) => RawMessage::assistant("", &from_lines(content, first, calls)),
        (
            Kind::Assistant {
                first_call: None, ..
            },
            ToolMode::Schema,
        ) => answer_text(ToolMode::Schema, content),
        (
            Kind::Assistant {
                first_call: None, ..
            },
            ToolMode::Native,
        ) => RawMessage::assistant(&Reply::from_text(content).answer, &[]),
    }
}

/// The calls of a native message as a model in schema mode would have written them, one a line.
fn as_lines(calls: &Value) -> String {
    let line = |call: &Value| {
        let function = &call["function"];
        let arguments = function["arguments"].as_str().unwrap_or("{}");
        let arguments: Value = serde_json::from_str(arguments).unwrap_or(json!({}));
        written(function["name"].as_str().unwrap_or_default(), &arguments)
    };
    let lines: Vec<String> = calls.as_array().into_iter().flatten().map(line).collect();
    lines.join("\n")
}

/// A call in the form of schema mode, where every tool but the core ones goes through `call_tool`.
fn written(name: &str, arguments: &Value) -> String {
    let call = if core_tool(name).is_some() {
        json!({ name: arguments })
    } else {
        json!({ CALL_TOOL: {"name": name, "arguments": arguments} })
    };
    call.to_string()
}

/// The calls in a message of schema mode: as many as were recorded, whatever the text holds, so
/// that each result still has its call.
fn from_lines(content: &str, first: CallId, count: usize) -> Vec<ToolCall> {
    let whole = Reply::from_text(content).calls;
    let mut written = if count > 1 {
        content
            .lines()
            .flat_map(|line| Reply::from_text(line).calls)
            .collect()
    } else {
        whole
    };
    written.resize(
        count,
        ToolCall {
            id: String::new(),
            name: String::new(),
            arguments: String::new(),
        },
    );
    let mut next = first;
    let mut numbered = Vec::with_capacity(count);
    for call in written {
        numbered.push(sendable(next, &call));
        next = next.next();
    }
    numbered
}

/// The names of the tools in a result of `find_tool`, out of the message that carries it.
///
/// Read from the list's own form rather than parsed, since a long list may have been cut.
pub(super) fn found_names(message: &str) -> Vec<String> {
    const OPENS: &str = "{\"name\":\"";
    let parsed: Value = serde_json::from_str(message).unwrap_or(Value::Null);
    let content = parsed["content"].as_str().unwrap_or_default();
    let list = content
        .lines()
        .find(|line| line.starts_with("{\"tools\":["));
    list.into_iter()
        .flat_map(|line| line.split(OPENS).skip(1))
        .filter_map(|rest| rest.split_once('"'))
        .map(|(name, _)| name.to_owned())
        .collect()
}
