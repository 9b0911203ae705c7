//! Whether a body may be sent to a model server. Pure; one pass, nothing is written anew.

use super::messages::Messages;
use super::rules::{REQUIRED, integer, rule, string};
use crate::code::Code;
use crate::problem::Problem;
use crate::wire::inferproxy::BackendKind;
use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// How many fields a body may have.
const MAX_FIELDS: usize = 64;
/// How much of a refused value is told, in characters.
const MAX_SHOWN_CHARS: usize = 60;

/// What a body must agree with.
#[derive(Debug, Clone, Copy)]
pub struct Expected<'a> {
    /// The kind of the server.
    pub kind: BackendKind,
    /// The slot that the headers name.
    pub slot: Option<u32>,
    /// The model that the server was found to have; only a server of several is held to it.
    pub model: &'a str,
}

/// Checks a body against the list of allowed fields.
///
/// # Errors
/// It is no JSON object, or a field is not on the list, out of range, absent or there twice.
pub fn check_body(body: &[u8], expected: &Expected<'_>) -> Result<(), Problem> {
    let body: Body<'_> = serde_json::from_slice(body).map_err(|error| unreadable(&error))?;
    for (at, (name, value)) in body.fields.iter().enumerate() {
        if body.fields[..at].iter().any(|(earlier, _)| earlier == name) {
            return Err(refused(format!("`{}` stands twice", shown(name))));
        }
        let Some(rule) = rule(expected.kind, name) else {
            return Err(refused(format!(
                "`{}` is not a field that may be sent",
                shown(name)
            )));
        };
        if !(rule.holds)(value.get()) {
            return Err(out_of_range(rule.name, rule.says, Some(value.get())));
        }
    }
    let field = |name: &str| {
        let found = body.fields.iter().find(|(field, _)| field == name);
        found.map(|(_, value)| value.get())
    };
    if !body.has_messages {
        return Err(out_of_range("messages", "a list of messages", None));
    }
    if let Some(name) = REQUIRED.iter().find(|name| field(name).is_none()) {
        return Err(out_of_range(name, "there", None));
    }
    let bounded = field("max_tokens").or_else(|| field("max_completion_tokens"));
    if bounded.is_none() {
        return Err(out_of_range("max_tokens", "1 to 1000000", None));
    }
    check_agreement(expected, field("id_slot"), field("model"))
}

fn check_agreement(
    expected: &Expected<'_>,
    id_slot: Option<&str>,
    model: Option<&str>,
) -> Result<(), Problem> {
    if let Some(slot) = expected.slot
        && expected.kind == BackendKind::LlamaServer
        && !id_slot.is_some_and(|value| integer(value, u64::from(slot), u64::from(slot)))
    {
        return Err(out_of_range(
            "id_slot",
            &format!("{slot}, as the header has it"),
            id_slot,
        ));
    }
    if expected.kind == BackendKind::Openai
        && !expected.model.is_empty()
        && model
            .and_then(string)
            .is_none_or(|model| model != expected.model)
    {
        return Err(out_of_range(
            "model",
            &format!("`{}`", expected.model),
            model,
        ));
    }
    Ok(())
}

struct Body<'a> {
    fields: Vec<(Cow<'a, str>, &'a RawValue)>,
    has_messages: bool,
}

#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> Deserialize<'de> for Body<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(BodyVisitor)
    }
}

struct BodyVisitor;

impl<'de> Visitor<'de> for BodyVisitor {
    type Value = Body<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Body<'de>, A::Error> {
        let mut body = Body {
            fields: Vec::with_capacity(24),
            has_messages: false,
        };
        while let Some(Key(name)) = map.next_key()? {
            if body.fields.len() == MAX_FIELDS {
                return Err(de::Error::custom("there are too many fields"));
            }
            if name == "messages" {
                if body.has_messages {
                    return Err(de::Error::custom("`messages` stands twice"));
                }
                body.has_messages = true;
                map.next_value::<Messages>()?;
            } else {
                body.fields.push((name, map.next_value()?));
            }
        }
        Ok(body)
    }
}

fn unreadable(error: &serde_json::Error) -> Problem {
    if error.is_data() {
        return refused(error.to_string());
    }
    Problem::new(Code::BadRequest, "The body of a model call is not JSON").detail(error.to_string())
}

fn out_of_range(name: &str, says: &str, value: Option<&str>) -> Problem {
    let is = value.map_or_else(
        || "is absent".to_owned(),
        |value| format!("is {}", shown(value)),
    );
    refused(format!("`{name}` must be {says}; it {is}"))
}

fn refused(detail: String) -> Problem {
    Problem::new(
        Code::FieldNotAllowed,
        "A field of a model call is not allowed",
    )
    .detail(detail)
}

fn shown(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(MAX_SHOWN_CHARS) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    const SLOT: u32 = 1;

    fn base(kind: BackendKind) -> Value {
        let mut body = json!({
            "model": "m",
            "messages": [{"role": "user", "content": "hi"}],
            "stream": true,
            "max_tokens": 5,
        });
        if kind == BackendKind::LlamaServer {
            body["id_slot"] = SLOT.into();
        }
        body
    }

    fn check_value(kind: BackendKind, body: &Value) -> Result<(), Problem> {
        let slot = (kind == BackendKind::LlamaServer).then_some(SLOT);
        let expected = Expected {
            kind,
            slot,
            model: "m",
        };
        check_body(&serde_json::to_vec(body).unwrap(), &expected)
    }

    fn with(kind: BackendKind, name: &str, value: Value) -> Result<(), Problem> {
        let mut body = base(kind);
        body[name] = value;
        check_value(kind, &body)
    }

    #[test]
    fn what_loopd_sends_is_allowed() {
        let body = json!({
            "model": "m",
            "messages": [
                {"role": "system", "content": "s"},
                {"role": "user", "content": [{"type": "text", "text": "t"}]},
                {"role": "assistant", "content": null, "tool_calls": [
                    {"id": "call-1", "type": "function", "function": {"name": "clock", "arguments": "{}"}}]},
                {"role": "tool", "content": "r", "tool_call_id": "call-1"},
                {"role": "assistant", "content": "a", "reasoning_content": "because"},
            ],
            "tools": [{"type": "function", "function": {"name": "clock", "parameters": {}}}],
            "tool_choice": "none", "parallel_tool_calls": true,
            "response_format": {"type": "json_schema", "json_schema": {"name": "r", "schema": {}}},
            "temperature": 0.7, "top_p": 1, "top_k": 40, "min_p": 0.05, "seed": 7, "n": 1,
            "max_tokens": 1_000_000, "stop": ["x"], "stream": true,
            "stream_options": {"include_usage": true}, "cache_prompt": true, "id_slot": 1,
            "timings_per_token": false, "return_progress": true,
            "chat_template_kwargs": {"enable_thinking": false}, "reasoning_format": "auto",
            "repeat_penalty": 1.1, "grammar": "root ::= \"yes\"",
        });
        assert_eq!(check_value(BackendKind::LlamaServer, &body), Ok(()));
    }

    #[test]
    fn what_is_not_on_the_list_or_out_of_range_is_refused_by_name() {
        for (name, value) in [
            ("n_discard", json!(-1)),
            ("lora", json!([{"id": 0, "scale": 1.0}])),
            ("slot_id", json!(0)),
            ("id_slot", json!(99)),
            ("id_slot", json!(-1)),
            ("id_slot", json!("1")),
            ("id_slot", Value::Null),
            ("cache_prompt", json!(false)),
            ("return_progress", json!(false)),
            ("stream", json!(false)),
            ("temperature", json!(-5)),
            ("temperature", json!(2.01)),
            ("temperature", json!("hot")),
            ("max_tokens", json!(0)),
            ("max_tokens", json!(-1)),
            ("max_tokens", json!(1_000_001)),
            ("max_tokens", json!(1.5)),
            ("n", json!(2)),
            ("n_predict", json!(5)),
            ("model", json!("")),
            ("top_k", json!(-1)),
            ("tool_choice", json!("any")),
            (
                "tool_choice",
                json!({"type": "function", "function": {"name": "a"}, "x": 1}),
            ),
            ("tools", json!([])),
            ("tools", json!([{"type": "web_search"}])),
            ("response_format", json!({"type": "grammar"})),
            ("response_format", json!({"type": "json_schema"})),
            ("stream_options", json!({"x": true})),
            ("stop", json!([1])),
            ("grammar", json!({"root": "x"})),
            ("grammar", json!("x".repeat(1024 * 1024))),
            ("chat_template_kwargs", json!("x")),
            ("user", json!("me")),
            ("messages", json!([])),
            ("messages", json!("x")),
            ("messages", json!([{"role": "root", "content": "x"}])),
            ("messages", json!([{"role": "user", "content": 1}])),
            (
                "messages",
                json!([{"role": "user", "content": "x", "prefix": true}]),
            ),
            ("messages", json!([{"content": "x"}])),
        ] {
            let problem = with(BackendKind::LlamaServer, name, value.clone()).unwrap_err();
            assert_eq!(problem.code, Code::FieldNotAllowed, "{name} {value}");
        }
    }

    #[test]
    fn a_message_can_name_nothing_to_fetch() {
        for part in [
            json!({"type": "image_url", "image_url": {"url": "http://evil.test/?q=secret"}}),
            json!({"type": "text", "text": "x", "image_url": {"url": "file:///etc/passwd"}}),
            json!({"type": "input_audio", "input_audio": {}}),
        ] {
            let messages = json!([{"role": "user", "content": [part]}]);
            for kind in [BackendKind::LlamaServer, BackendKind::Openai] {
                let problem = with(kind, "messages", messages.clone()).unwrap_err();
                assert_eq!(problem.code, Code::FieldNotAllowed);
            }
        }
    }

    #[test]
    fn fields_of_one_kind_are_refused_by_the_other() {
        for (name, value) in [
            ("id_slot", json!(1)),
            ("cache_prompt", json!(true)),
            ("top_k", json!(1)),
        ] {
            assert!(
                with(BackendKind::Openai, name, value.clone()).is_err(),
                "{name}"
            );
            assert!(
                with(BackendKind::LlamaServer, name, value).is_ok(),
                "{name}"
            );
        }
        assert!(with(BackendKind::Openai, "reasoning_effort", json!("low")).is_ok());
        assert!(with(BackendKind::LlamaServer, "reasoning_effort", json!("low")).is_err());
        assert!(with(BackendKind::Openai, "model", json!("other")).is_err());
        assert!(with(BackendKind::LlamaServer, "model", json!("other")).is_ok());
    }

    #[test]
    fn what_must_be_there_must_be_there() {
        for name in ["model", "messages", "stream", "max_tokens", "id_slot"] {
            let mut body = base(BackendKind::LlamaServer);
            body.as_object_mut().unwrap().shift_remove(name);
            let problem = check_value(BackendKind::LlamaServer, &body).unwrap_err();
            assert!(problem.detail.unwrap().contains(&format!("`{name}`")));
        }
        let mut body = base(BackendKind::Openai);
        body.as_object_mut().unwrap().shift_remove("max_tokens");
        body["max_completion_tokens"] = 9.into();
        assert_eq!(check_value(BackendKind::Openai, &body), Ok(()));
    }

    #[test]
    fn a_field_can_not_stand_twice_nor_hide_in_an_escape() {
        let expected = Expected {
            kind: BackendKind::LlamaServer,
            slot: Some(1),
            model: "m",
        };
        for (body, code) in [
            (r#"{"stream":true,"stream":true}"#, Code::FieldNotAllowed),
            (
                r#"{"messages":[{"role":"user","content":"a"}],"messages":[]}"#,
                Code::FieldNotAllowed,
            ),
            (
                r#"{"messages":[{"role":"user","role":"user"}]}"#,
                Code::FieldNotAllowed,
            ),
            (r#"{"lo\u0072a":[]}"#, Code::FieldNotAllowed),
            (r#"{"a":1}{"b":2}"#, Code::BadRequest),
            ("[]", Code::FieldNotAllowed),
            ("", Code::BadRequest),
            ("{\"model\":\"\u{0}\"}", Code::BadRequest),
        ] {
            assert_eq!(
                check_body(body.as_bytes(), &expected).unwrap_err().code,
                code,
                "{body}"
            );
        }
        let invalid = b"{\"model\":\"\xff\"}";
        assert!(check_body(invalid, &expected).is_err());
        let deep = format!(
            "{{\"tools\":{}1{}}}",
            "[".repeat(10_000),
            "]".repeat(10_000)
        );
        assert!(check_body(deep.as_bytes(), &expected).is_err());
    }

    proptest! {
        #[test]
        fn nothing_panics(body in "\\PC{0,80}") {
            let expected = Expected { kind: BackendKind::Openai, slot: None, model: "" };
            let _ = check_body(body.as_bytes(), &expected);
        }
    }
}
