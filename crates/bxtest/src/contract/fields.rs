//! Which top-level fields a request may carry, and their ranges.
//!
//! The list is what a careful client has reason to send; a field outside it is a breach even where
//! the real server would take it, since an open list is how `n_discard` or a foreign `lora` gets in.

use serde_json::Value;

use super::body::Body;
use super::breach::BreachKind;

/// The HTTP dialect that a request is written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// llama-server: OpenAI's chat fields and its own for slots, cache and progress.
    LlamaServer,
    /// OpenAI's chat fields and nothing else.
    OpenAi,
}

struct Rule {
    name: &'static str,
    dialects: Only,
    says: &'static str,
    holds: fn(&Value) -> bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Only {
    Both,
    Llama,
    OpenAi,
}

impl Only {
    fn admits(self, dialect: Dialect) -> bool {
        match self {
            Self::Both => true,
            Self::Llama => dialect == Dialect::LlamaServer,
            Self::OpenAi => dialect == Dialect::OpenAi,
        }
    }
}

const fn rule(
    name: &'static str,
    dialects: Only,
    says: &'static str,
    holds: fn(&Value) -> bool,
) -> Rule {
    Rule {
        name,
        dialects,
        says,
        holds,
    }
}

const MAX_STOPS: usize = 16;
const MAX_REPLY_TOKENS: u64 = 1_000_000;

static RULES: &[Rule] = &[
    rule("model", Only::Both, "a non-empty string", |v| {
        v.as_str().is_some_and(|s| !s.is_empty())
    }),
    rule("messages", Only::Both, "a non-empty array", filled_array),
    rule("tools", Only::Both, "a non-empty array of functions", tools),
    rule(
        "tool_choice",
        Only::Both,
        "auto, none, required or a function",
        tool_choice,
    ),
    rule(
        "parallel_tool_calls",
        Only::Both,
        "true or false",
        Value::is_boolean,
    ),
    rule(
        "response_format",
        Only::Both,
        "text, json_object or json_schema with a schema",
        format,
    ),
    rule("stream", Only::Both, "true or false", Value::is_boolean),
    rule(
        "stream_options",
        Only::Both,
        "{include_usage: true or false}",
        |v| {
            v.as_object().is_some_and(|o| {
                o.iter()
                    .all(|(key, value)| key == "include_usage" && value.is_boolean())
            })
        },
    ),
    rule("temperature", Only::Both, "0 to 2", |v| within(v, 0.0, 2.0)),
    rule("top_p", Only::Both, "0 to 1", |v| within(v, 0.0, 1.0)),
    rule("presence_penalty", Only::Both, "-2 to 2", |v| {
        within(v, -2.0, 2.0)
    }),
    rule("frequency_penalty", Only::Both, "-2 to 2", |v| {
        within(v, -2.0, 2.0)
    }),
    rule("seed", Only::Both, "an integer of 32 bits", |v| {
        integer(v, 0, u64::from(u32::MAX))
    }),
    rule("max_tokens", Only::Both, "1 to 1000000", |v| {
        integer(v, 1, MAX_REPLY_TOKENS)
    }),
    rule("stop", Only::Both, "up to 16 strings", stop),
    rule("n", Only::Both, "1", |v| v.as_u64() == Some(1)),
    rule("max_completion_tokens", Only::OpenAi, "1 to 1000000", |v| {
        integer(v, 1, MAX_REPLY_TOKENS)
    }),
    rule(
        "reasoning_effort",
        Only::OpenAi,
        "a string",
        Value::is_string,
    ),
    rule("user", Only::OpenAi, "a string", Value::is_string),
    rule("id_slot", Only::Llama, "an integer from 0", |v| {
        v.as_u64().is_some()
    }),
    rule(
        "cache_prompt",
        Only::Llama,
        "true: without it every prompt is read twice",
        |v| v.as_bool() == Some(true),
    ),
    rule(
        "return_progress",
        Only::Llama,
        "true or false",
        Value::is_boolean,
    ),
    rule(
        "timings_per_token",
        Only::Llama,
        "true or false",
        Value::is_boolean,
    ),
    rule("top_k", Only::Llama, "0 to 10000", |v| {
        integer(v, 0, 10_000)
    }),
    rule("min_p", Only::Llama, "0 to 1", |v| within(v, 0.0, 1.0)),
    rule("repeat_penalty", Only::Llama, "0 to 2", |v| {
        within(v, 0.0, 2.0)
    }),
    rule("grammar", Only::Llama, "a non-empty string", |v| {
        v.as_str().is_some_and(|text| !text.is_empty())
    }),
    rule(
        "chat_template_kwargs",
        Only::Llama,
        "an object",
        Value::is_object,
    ),
    rule(
        "reasoning_format",
        Only::Llama,
        "none, auto or deepseek",
        |v| matches!(v.as_str(), Some("none" | "auto" | "deepseek")),
    ),
];

/// Checks every top-level field of `body`.
pub(super) fn check(dialect: Dialect, body: &Body) -> Vec<(BreachKind, String)> {
    let mut found = Vec::new();
    for (name, value) in body.value().as_object().into_iter().flatten() {
        match RULES
            .iter()
            .find(|rule| rule.name == name && rule.dialects.admits(dialect))
        {
            None => found.push((BreachKind::UnknownField, format!("`{name}`"))),
            Some(rule) if !(rule.holds)(value) => found.push((
                BreachKind::FieldRange,
                format!("`{name}` must be {}, is {}", rule.says, excerpt(value)),
            )),
            Some(_) => {}
        }
    }
    if body.field("tool_choice").is_some() && body.field("tools").is_none() {
        found.push((
            BreachKind::FieldAbsent,
            "`tool_choice` without `tools`".to_owned(),
        ));
    }
    if body.field("stream_options").is_some() && body.value()["stream"] != true {
        found.push((
            BreachKind::FieldRange,
            "`stream_options` without `stream`".to_owned(),
        ));
    }
    if dialect == Dialect::OpenAi && body.field("model").is_none() {
        found.push((BreachKind::FieldAbsent, "no `model`".to_owned()));
    }
    found
}

fn filled_array(value: &Value) -> bool {
    value.as_array().is_some_and(|items| !items.is_empty())
}

fn within(value: &Value, low: f64, high: f64) -> bool {
    value
        .as_f64()
        .is_some_and(|number| (low..=high).contains(&number))
}

fn integer(value: &Value, low: u64, high: u64) -> bool {
    value
        .as_u64()
        .is_some_and(|number| (low..=high).contains(&number))
}

fn stop(value: &Value) -> bool {
    value.is_string()
        || value
            .as_array()
            .is_some_and(|items| items.len() <= MAX_STOPS && items.iter().all(Value::is_string))
}

fn tools(value: &Value) -> bool {
    let function = |tool: &Value| {
        tool["type"] == "function"
            && tool["function"]["name"]
                .as_str()
                .is_some_and(|name| !name.is_empty())
            && tool["function"]["parameters"].is_object()
    };
    filled_array(value)
        && value
            .as_array()
            .is_some_and(|tools| tools.iter().all(function))
}

fn tool_choice(value: &Value) -> bool {
    matches!(value.as_str(), Some("auto" | "none" | "required"))
        || value["function"]["name"].is_string()
}

fn format(value: &Value) -> bool {
    match value["type"].as_str() {
        Some("text" | "json_object") => true,
        Some("json_schema") => value["json_schema"]["schema"].is_object(),
        _ => false,
    }
}

fn excerpt(value: &Value) -> String {
    const MAX_EXCERPT_CHARS: usize = 80;
    let text = value.to_string();
    match text.char_indices().nth(MAX_EXCERPT_CHARS) {
        Some((end, _)) => format!("{} …", &text[..end]),
        None => text,
    }
}
