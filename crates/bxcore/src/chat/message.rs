//! Messages as they are sent, and the tool calls in them.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::sync::Arc;

/// One message of a conversation as the JSON text that goes over the wire.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RawMessage(Arc<RawValue>);

impl RawMessage {
    /// The JSON text.
    pub fn json(&self) -> &str {
        self.0.get()
    }

    fn of(message: &Message<'_>) -> Self {
        // A struct of strings always serialises; the fallback keeps this free of panics.
        let raw =
            serde_json::value::to_raw_value(message).unwrap_or_else(|_| RawValue::NULL.to_owned());
        Self(Arc::from(raw))
    }

    /// A message of the system.
    pub fn system(text: &str) -> Self {
        Self::of(&Message {
            role: "system",
            content: Some(text),
            reasoning_content: None,
            tool_calls: &[],
            tool_call_id: None,
        })
    }

    /// A message of the user.
    pub fn user(text: &str) -> Self {
        Self::of(&Message {
            role: "user",
            content: Some(text),
            reasoning_content: None,
            tool_calls: &[],
            tool_call_id: None,
        })
    }

    /// A message of the model.
    pub fn assistant(text: &str, tool_calls: &[ToolCall]) -> Self {
        Self::assistant_thinking("", text, tool_calls)
    }

    /// A message of the model with what it thought, for a template that shows it again.
    pub fn assistant_thinking(reasoning: &str, text: &str, tool_calls: &[ToolCall]) -> Self {
        let content = (!text.is_empty() || tool_calls.is_empty()).then_some(text);
        Self::of(&Message {
            role: "assistant",
            content,
            reasoning_content: (!reasoning.is_empty()).then_some(reasoning),
            tool_calls,
            tool_call_id: None,
        })
    }

    /// The result of the tool call with this id.
    pub fn tool(tool_call_id: &str, text: &str) -> Self {
        Self::of(&Message {
            role: "tool",
            content: Some(text),
            reasoning_content: None,
            tool_calls: &[],
            tool_call_id: Some(tool_call_id),
        })
    }
}

impl PartialEq for RawMessage {
    fn eq(&self, other: &Self) -> bool {
        self.json() == other.json()
    }
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty", serialize_with = "wire_calls")]
    tool_calls: &'a [ToolCall],
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
}

fn wire_calls<S: serde::Serializer>(calls: &&[ToolCall], serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Function<'a> {
        name: &'a str,
        arguments: &'a str,
    }
    #[derive(Serialize)]
    struct Call<'a> {
        id: &'a str,
        #[serde(rename = "type")]
        kind: &'static str,
        function: Function<'a>,
    }
    serializer.collect_seq(calls.iter().map(|call| Call {
        id: &call.id,
        kind: "function",
        function: Function {
            name: &call.name,
            arguments: &call.arguments,
        },
    }))
}

/// A tool call as the model wrote it; the arguments are its text and may be no JSON at all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The id that pairs it with its result on the wire.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments, as text.
    pub arguments: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_the_shape_servers_expect() {
        let call = ToolCall {
            id: "c1".into(),
            name: "clock".into(),
            arguments: "{}".into(),
        };
        assert_eq!(
            RawMessage::assistant("", &[call]).json(),
            r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"clock","arguments":"{}"}}]}"#
        );
        assert_eq!(
            RawMessage::assistant_thinking("hm", "yes", &[]).json(),
            r#"{"role":"assistant","content":"yes","reasoning_content":"hm"}"#
        );
        assert_eq!(
            RawMessage::tool("c1", "ok").json(),
            r#"{"role":"tool","content":"ok","tool_call_id":"c1"}"#
        );
        assert_eq!(
            RawMessage::user("hi\n").json(),
            r#"{"role":"user","content":"hi\n"}"#
        );
    }
}
