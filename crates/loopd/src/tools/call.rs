//! Where a call goes: what the model wrote, read strictly, to one tool with its arguments.
//!
//! Nothing is decided here; whatever is not one of loopd's own tools is for brokerd to judge, a
//! name that it doesn't know included, so that each judgement is on its record.

use super::core::{CALL_TOOL, core_tool};
use super::own::OwnTool;
use bxcore::chat::ToolCall;
use bxcore::code::Code;
use bxcore::delegation::SUBAGENT;
use bxcore::json::parse_strict;
use bxcore::tool::{MAX_TOOL_NAME_BYTES, ToolName};
use bxcore::transcript::CallOutcome;
use serde_json::{Map, Value};

/// The name under which a call without a usable name is recorded.
const NAMELESS: &str = "unnamed";

/// Who runs a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// loopd itself.
    Own(OwnTool),
    /// A child session.
    Child,
    /// brokerd, which also decides whether it runs at all.
    Broker,
}

/// A call after it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Routed {
    /// It goes to a tool.
    To {
        /// Who runs it.
        target: Target,
        /// The tool; the inner one of a `call_tool`.
        tool: ToolName,
        /// Its arguments as text.
        arguments: String,
    },
    /// It names no tool or can't be read.
    Refused {
        /// The name to record.
        tool: ToolName,
        /// How the call ends.
        outcome: CallOutcome,
        /// Why.
        code: Code,
        /// What the model is told.
        text: String,
    },
}

impl Routed {
    /// The name that is recorded and shown.
    pub fn tool(&self) -> &ToolName {
        match self {
            Self::To { tool, .. } | Self::Refused { tool, .. } => tool,
        }
    }

    fn refused(name: &str, code: Code, text: String) -> Self {
        Self::Refused {
            tool: sanitised_name(name),
            outcome: CallOutcome::Denied,
            code,
            text,
        }
    }
}

/// Reads a call. Arguments longer than `max_argument_bytes` are refused.
///
/// Empty arguments count as `{}`, and the inner arguments of `call_tool` may be an object or a
/// string that holds one: small models write both.
pub fn route(written: &ToolCall, max_argument_bytes: usize) -> Routed {
    let name = written.name.trim();
    if written.arguments.len() > max_argument_bytes {
        let text = format!(
            "The arguments are {} bytes long; at most {max_argument_bytes} are allowed.",
            written.arguments.len()
        );
        return Routed::refused(name, Code::InvalidArguments, text);
    }
    if name == CALL_TOOL {
        return route_inner(&written.arguments);
    }
    to_tool(name, or_empty_object(&written.arguments).to_owned())
}

/// A name made to fit [`ToolName`], for the record of a call that names no tool.
pub fn sanitised_name(name: &str) -> ToolName {
    let kept: String = name
        .chars()
        .take(MAX_TOOL_NAME_BYTES)
        .map(|c| match c {
            c if c.is_ascii_alphanumeric() || "_-:/.".contains(c) => c,
            _ => '_',
        })
        .collect();
    ToolName::new(kept).unwrap_or_else(|_| nameless())
}

fn nameless() -> ToolName {
    // The constant keeps the rule of names; `clippy::unwrap_used` has no way to know that.
    ToolName::new(NAMELESS).unwrap_or_else(|_| unreachable!("a constant that is a name"))
}

fn or_empty_object(arguments: &str) -> &str {
    let blank = arguments.trim().is_empty();
    if blank { "{}" } else { arguments }
}

fn to_tool(name: &str, arguments: String) -> Routed {
    let Ok(tool) = ToolName::new(name) else {
        let text = "No tool has this name. find_tool finds tools.".to_owned();
        return Routed::refused(name, Code::UnknownTool, text);
    };
    let target = if name == SUBAGENT {
        Target::Child
    } else {
        core_tool(name)
            .and_then(|core| core.own)
            .map_or(Target::Broker, Target::Own)
    };
    Routed::To {
        target,
        tool,
        arguments,
    }
}

fn route_inner(arguments: &str) -> Routed {
    let bad = |why: &str| {
        let text = format!(
            "{why} {CALL_TOOL} takes {{\"name\": \"NAME OF THE TOOL\", \"arguments\": {{…}}}}."
        );
        Routed::refused(CALL_TOOL, Code::InvalidArguments, text)
    };
    let mut outer = match parse_strict(or_empty_object(arguments)) {
        Ok(Value::Object(outer)) => outer,
        Ok(_) => return bad("The arguments are not an object."),
        Err(error) => return bad(&format!("The arguments are {error}.")),
    };
    let Some(Value::String(name)) = outer.shift_remove("name") else {
        return bad("The name of the tool is missing.");
    };
    let inner = outer.shift_remove("arguments").unwrap_or(Value::Null);
    if let Some(key) = outer.keys().next() {
        return bad(&format!("`{key}` belongs into \"arguments\"."));
    }
    let name = name.trim();
    if name == CALL_TOOL {
        return bad("A call_tool can't call another one.");
    }
    let arguments = match inner {
        Value::Null => Value::Object(Map::new()).to_string(),
        Value::String(text) => or_empty_object(&text).to_owned(),
        other => other.to_string(),
    };
    to_tool(name, arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routed(name: &str, arguments: &str) -> Routed {
        let written = ToolCall {
            id: String::new(),
            name: name.to_owned(),
            arguments: arguments.to_owned(),
        };
        route(&written, 1000)
    }

    #[test]
    fn calls_reach_the_inner_tool() {
        let own = Target::Own(OwnTool::Clock);
        for (name, arguments, target, tool, inner) in [
            ("clock", "{}", own, "clock", "{}"),
            ("clock", " ", own, "clock", "{}"),
            (
                "read_file",
                r#"{"path":"a"}"#,
                Target::Broker,
                "read_file",
                r#"{"path":"a"}"#,
            ),
            (
                "call_tool",
                r#"{"name":"clock","arguments":{}}"#,
                own,
                "clock",
                "{}",
            ),
            ("call_tool", r#"{"name":"clock"}"#, own, "clock", "{}"),
            (
                "call_tool",
                r#"{"name":"x","arguments":{"b":1,"a":2}}"#,
                Target::Broker,
                "x",
                r#"{"b":1,"a":2}"#,
            ),
            (
                "call_tool",
                r#"{"name":" x ","arguments":"{\"a\":1}"}"#,
                Target::Broker,
                "x",
                r#"{"a":1}"#,
            ),
            // Left to brokerd, which refuses it on the record.
            (
                "call_tool",
                r#"{"name":"x","arguments":"no json"}"#,
                Target::Broker,
                "x",
                "no json",
            ),
            (
                "call_tool",
                r#"{"name":"x","arguments":[1]}"#,
                Target::Broker,
                "x",
                "[1]",
            ),
            ("nonesuch", "{", Target::Broker, "nonesuch", "{"),
        ] {
            let expect = Routed::To {
                target,
                tool: ToolName::new(tool).unwrap(),
                arguments: inner.to_owned(),
            };
            assert_eq!(routed(name, arguments), expect, "{name} {arguments}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_a_reason() {
        let long = format!("{{\"a\":\"{}\"}}", "x".repeat(1000));
        for (name, arguments, tool, code) in [
            ("", "{}", "unnamed", Code::UnknownTool),
            ("run me", "{}", "run_me", Code::UnknownTool),
            ("</tool-result>", "{}", "_/tool-result_", Code::UnknownTool),
            ("call_tool", "", "call_tool", Code::InvalidArguments),
            ("call_tool", "[]", "call_tool", Code::InvalidArguments),
            (
                "call_tool",
                "{\"name\":",
                "call_tool",
                Code::InvalidArguments,
            ),
            (
                "call_tool",
                r#"{"name":"a","name":"b"}"#,
                "call_tool",
                Code::InvalidArguments,
            ),
            (
                "call_tool",
                r#"{"name":"a","path":"b"}"#,
                "call_tool",
                Code::InvalidArguments,
            ),
            (
                "call_tool",
                r#"{"name":7}"#,
                "call_tool",
                Code::InvalidArguments,
            ),
            (
                "call_tool",
                r#"{"name":"call_tool"}"#,
                "call_tool",
                Code::InvalidArguments,
            ),
            (
                "call_tool",
                r#"{"name":"a b","arguments":{}}"#,
                "a_b",
                Code::UnknownTool,
            ),
            ("read_file", &long, "read_file", Code::InvalidArguments),
        ] {
            let Routed::Refused {
                tool: recorded,
                code: why,
                text,
                ..
            } = routed(name, arguments)
            else {
                panic!("{name} {arguments} was let through");
            };
            assert_eq!((recorded.as_str(), why), (tool, code), "{name} {arguments}");
            assert!(!text.is_empty());
        }
    }
}
