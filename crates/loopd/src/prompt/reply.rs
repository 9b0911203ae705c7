//! Reads a model's reply: an answer for the person, or calls of tools.
//!
//! In schema mode a reply is one JSON object. A server that holds the model to the schema always
//! gives that; for the others the text goes down the rungs until it is something.

use super::ladder::extract;
use super::stream::AnswerStream;
use crate::tools::core_tool;
use bxcore::chat::{Finish, MAX_TOOL_CALLS_PER_ANSWER, ModelAnswer, ToolCall};
use bxcore::json::parse_strict;
use bxcore::transcript::{Rung, ToolMode};
use serde_json::{Map, Value};

/// A reply after it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// What is said to the person; beside calls it is talk on the way.
    pub answer: String,
    /// The calls, in order, without ids.
    pub calls: Vec<ToolCall>,
    /// How a reply in schema mode got its form.
    pub rung: Option<Rung>,
}

/// Reads an answer of the model in a mode.
pub fn read_reply(mode: ToolMode, answer: &ModelAnswer) -> Reply {
    let mut reply = match mode {
        ToolMode::Schema => Reply::from_text(&answer.content),
        ToolMode::Native => Reply {
            answer: answer.content.clone(),
            calls: Vec::new(),
            rung: None,
        },
    };
    // In schema mode these are of a server that was sent no tools but calls some all the same.
    let room = MAX_TOOL_CALLS_PER_ANSWER - reply.calls.len();
    reply
        .calls
        .extend(answer.tool_calls.iter().take(room).cloned());
    reply
}

/// Whether the last call of an answer was cut off in the middle of its arguments.
pub fn last_call_is_cut(answer: &ModelAnswer, calls: &[ToolCall]) -> bool {
    let open = |call: &ToolCall| serde_json::from_str::<Value>(&call.arguments).is_err();
    answer.finish == Finish::Length && calls.last().is_some_and(open)
}

impl Reply {
    /// Reads the text of a reply in schema mode. Every text is some reply.
    pub(super) fn from_text(text: &str) -> Self {
        if let Some(reply) = parse_strict(text).ok().and_then(Self::from_object) {
            return reply.on(Rung::Schema);
        }
        if let Some(reply) = extract::objects(text).find_map(Self::from_object) {
            return reply.on(Rung::Extracted);
        }
        if let Some(reply) = Self::from_cut(text) {
            return reply.on(Rung::Coerced);
        }
        let answer = text.trim().to_owned();
        Self::answering(answer).on(Rung::Default)
    }

    fn answering(answer: String) -> Self {
        Self {
            answer,
            calls: Vec::new(),
            rung: None,
        }
    }

    fn calling(call: ToolCall) -> Self {
        Self {
            answer: String::new(),
            calls: vec![call],
            rung: None,
        }
    }

    fn on(mut self, rung: Rung) -> Self {
        self.rung = Some(rung);
        self
    }

    fn from_object(value: Value) -> Option<Self> {
        let Value::Object(mut object) = value else {
            return None;
        };
        if let Some(call) = written_call(&mut object) {
            return Some(Self::calling(call));
        }
        match object.shift_remove("answer")? {
            Value::String(answer) => Some(Self::answering(answer)),
            other => Some(Self::answering(other.to_string())),
        }
    }

    /// A reply whose end is missing or broken: the answer as far as it goes, or a call that is
    /// recognised as one although its arguments can't be read.
    fn from_cut(text: &str) -> Option<Self> {
        let mut stream = AnswerStream::schema();
        let answer = stream.push(text);
        if stream.is_answering() {
            return Some(Self::answering(answer));
        }
        cut_call(text).map(Self::calling)
    }
}

/// The call that an object is: `{"TOOL":{…}}`, which is what is asked for, or one of the forms
/// that models know from elsewhere.
fn written_call(object: &mut Map<String, Value>) -> Option<ToolCall> {
    if object.len() == 1
        && let Some((name, arguments)) = object.iter().next()
        && core_tool(name).is_some()
    {
        return Some(call(name, as_text(arguments.clone())));
    }
    let named = |key: &str| object.get(key)?.as_str().map(str::to_owned);
    let name = match named("tool") {
        Some(name) => name,
        // A name alone may be anybody's.
        None => named("name").filter(|_| object.contains_key("arguments"))?,
    };
    let arguments = object.shift_remove("arguments");
    Some(call(&name, as_text(arguments.unwrap_or(Value::Null))))
}

fn as_text(arguments: Value) -> String {
    match arguments {
        Value::Null => "{}".to_owned(),
        Value::String(text) => text,
        other => other.to_string(),
    }
}

fn call(name: &str, arguments: String) -> ToolCall {
    ToolCall {
        id: String::new(),
        name: name.to_owned(),
        arguments,
    }
}

/// The call that a text without its end was to become, with what there is of its arguments.
fn cut_call(text: &str) -> Option<ToolCall> {
    let rest = after(text, "{")?;
    let (key, value) = after(rest, "\"")?.split_once('"')?;
    let value = after(value, ":").unwrap_or("{");
    if core_tool(key).is_some() {
        return Some(call(key, value.to_owned()));
    }
    if key != "tool" {
        return None;
    }
    let (name, rest) = after(value, "\"")?.split_once('"')?;
    let arguments = after(rest, ",")
        .and_then(|rest| after(rest, "\"arguments\""))
        .and_then(|rest| after(rest, ":"))
        .unwrap_or("{");
    Some(call(name, arguments.to_owned()))
}

fn after<'a>(text: &'a str, token: &str) -> Option<&'a str> {
    text.trim_start().strip_prefix(token).map(str::trim_start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(text: &str) -> String {
        let reply = Reply::from_text(text);
        let rung = serde_json::to_string(&reply.rung.unwrap()).unwrap();
        match reply.calls.first() {
            Some(call) => format!("{rung} call {} {}", call.name, call.arguments),
            None => format!("{rung} answer {}", reply.answer),
        }
    }

    #[test]
    fn every_text_is_some_reply() {
        for (text, expect) in [
            (r#"{"answer":"hi"}"#, r#""schema" answer hi"#),
            ("{\n  \"answer\": \"a\\nb\"\n}", "\"schema\" answer a\nb"),
            (r#"{"clock":{}}"#, r#""schema" call clock {}"#),
            ("{\n  \"clock\": {\n    }\n}", r#""schema" call clock {}"#),
            (r#"{"clock":null}"#, r#""schema" call clock {}"#),
            (
                r#"{"find_tool":{"query":"x"}}"#,
                r#""schema" call find_tool {"query":"x"}"#,
            ),
            (
                r#"{"call_tool":{"name":"x","arguments":{"a":1}}}"#,
                r#""schema" call call_tool {"name":"x","arguments":{"a":1}}"#,
            ),
            (
                r#"{"name":"read_file","arguments":{"path":"a"}}"#,
                r#""schema" call read_file {"path":"a"}"#,
            ),
            (r#"{"name":"Ann"}"#, r#""default" answer {"name":"Ann"}"#),
            (r#"{"find_tool":{"que"#, r#""coerced" call find_tool {"que"#),
            (r#"{"clock""#, r#""coerced" call clock {"#),
            (r#"{"clo"#, r#""default" answer {"clo"#),
            (
                r#"{"tool":"clock","arguments":{}}"#,
                r#""schema" call clock {}"#,
            ),
            (r#"{"tool":"clock"}"#, r#""schema" call clock {}"#),
            (
                r#"{"tool":"call_tool","arguments":{"name":"x","arguments":{"a":1}}}"#,
                r#""schema" call call_tool {"name":"x","arguments":{"a":1}}"#,
            ),
            (r#"{"answer":42}"#, r#""schema" answer 42"#),
            (
                "Sure!\n```json\n{\"answer\":\"hi\"}\n```",
                r#""extracted" answer hi"#,
            ),
            (
                r#"I call {"tool":"clock","arguments":{}} now"#,
                r#""extracted" call clock {}"#,
            ),
            (
                r#"{"answer":"cut in the mid"#,
                r#""coerced" answer cut in the mid"#,
            ),
            (
                r#"{"answer":"lone \ud83d surrogate"}"#,
                "\"coerced\" answer lone \u{fffd} surrogate",
            ),
            (
                r#"{"tool":"find_tool","arguments":{"que"#,
                r#""coerced" call find_tool {"que"#,
            ),
            (r#"{"tool":"clock""#, r#""coerced" call clock {"#),
            ("Paris.", r#""default" answer Paris."#),
            ("[1,2]", r#""default" answer [1,2]"#),
            (r#"{"foo":1}"#, r#""default" answer {"foo":1}"#),
            ("", r#""default" answer "#),
            (" \n", r#""default" answer "#),
        ] {
            assert_eq!(shown(text), expect, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_reader(text in "([{}\\[\\]\",:\\\\ a-z]|tool|clock|answer|\"answer\":|\\PC){0,60}") {
            let reply = Reply::from_text(&text);
            prop_assert!(reply.rung.is_some());
            prop_assert!(reply.calls.len() <= 1);
        }
    }
}
