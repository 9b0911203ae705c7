//! The fields that may be sent to a model server, and their ranges. Pure.
//!
//! A server that meets an unknown or foreign field mostly does something without a word (a foreign
//! adapter, dropped context, another slot), so the list is of what is allowed, not of what isn't.

use crate::wire::inferproxy::BackendKind;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// The most tokens that a reply may be allowed.
pub const MAX_REPLY_TOKENS: u64 = 1_000_000;
/// How many strings may end a reply.
const MAX_STOPS: usize = 16;
/// How large the arguments of a chat template may be, in bytes.
const MAX_TEMPLATE_ARGUMENT_BYTES: usize = 4096;
/// The largest grammar that a reply may be held to, in bytes of JSON.
const MAX_GRAMMAR_BYTES: usize = 1024 * 1024;

/// One field: who takes it, and whether a value (as JSON text) is in its range.
pub(super) struct Rule {
    pub(super) name: &'static str,
    only: Option<BackendKind>,
    pub(super) says: &'static str,
    pub(super) holds: fn(&str) -> bool,
}

impl Rule {
    const fn both(name: &'static str, says: &'static str, holds: fn(&str) -> bool) -> Self {
        Self {
            name,
            only: None,
            says,
            holds,
        }
    }

    const fn llama(name: &'static str, says: &'static str, holds: fn(&str) -> bool) -> Self {
        let only = Some(BackendKind::LlamaServer);
        Self {
            name,
            only,
            says,
            holds,
        }
    }

    const fn openai(name: &'static str, says: &'static str, holds: fn(&str) -> bool) -> Self {
        let only = Some(BackendKind::Openai);
        Self {
            name,
            only,
            says,
            holds,
        }
    }
}

/// `messages` is not here: it is checked while it is read.
static RULES: &[Rule] = &[
    Rule::both("model", "a name of 1 to 256 bytes", |v| {
        string(v).is_some_and(|name| (1..=256).contains(&name.len()))
    }),
    Rule::both("tools", "a list of functions", tools),
    Rule::both(
        "tool_choice",
        "auto, none, required or one function",
        tool_choice,
    ),
    Rule::both("parallel_tool_calls", "true or false", boolean),
    Rule::both(
        "response_format",
        "of type text, json_object or json_schema",
        response_format,
    ),
    Rule::both("stream", "true", is_true),
    Rule::both(
        "stream_options",
        "{\"include_usage\": true or false}",
        stream_options,
    ),
    Rule::both("temperature", "0 to 2", |v| within(v, 0.0, 2.0)),
    Rule::both("top_p", "0 to 1", |v| within(v, 0.0, 1.0)),
    Rule::both("presence_penalty", "-2 to 2", |v| within(v, -2.0, 2.0)),
    Rule::both("frequency_penalty", "-2 to 2", |v| within(v, -2.0, 2.0)),
    Rule::both("seed", "0 to 4294967295", |v| {
        integer(v, 0, u64::from(u32::MAX))
    }),
    Rule::both("max_tokens", "1 to 1000000", |v| {
        integer(v, 1, MAX_REPLY_TOKENS)
    }),
    Rule::both("stop", "up to 16 strings", stop),
    Rule::both("n", "1", |v| integer(v, 1, 1)),
    Rule::llama("id_slot", "a slot", |v| integer(v, 0, u64::from(u32::MAX))),
    Rule::llama(
        "cache_prompt",
        "true: else each prompt is read anew",
        is_true,
    ),
    Rule::llama(
        "return_progress",
        "true: else a stop goes unnoticed while a prompt is read",
        is_true,
    ),
    Rule::llama("grammar", "a grammar of at most 1 MiB", |v| {
        v.len() <= MAX_GRAMMAR_BYTES && string(v).is_some_and(|text| !text.is_empty())
    }),
    Rule::llama("timings_per_token", "true or false", boolean),
    Rule::llama("top_k", "0 to 10000", |v| integer(v, 0, 10_000)),
    Rule::llama("min_p", "0 to 1", |v| within(v, 0.0, 1.0)),
    Rule::llama("repeat_penalty", "0 to 2", |v| within(v, 0.0, 2.0)),
    Rule::llama(
        "chat_template_kwargs",
        "an object of at most 4096 bytes",
        |v| v.starts_with('{') && v.len() <= MAX_TEMPLATE_ARGUMENT_BYTES,
    ),
    Rule::llama("reasoning_format", "none, auto or deepseek", |v| {
        matches!(v, "\"none\"" | "\"auto\"" | "\"deepseek\"")
    }),
    Rule::openai("max_completion_tokens", "1 to 1000000", |v| {
        integer(v, 1, MAX_REPLY_TOKENS)
    }),
    Rule::openai(
        "reasoning_effort",
        "none, minimal, low, medium or high",
        |v| {
            matches!(
                v,
                "\"none\"" | "\"minimal\"" | "\"low\"" | "\"medium\"" | "\"high\""
            )
        },
    ),
];

/// The rule of a field, if a server of this kind takes it at all.
pub(super) fn rule(kind: BackendKind, name: &str) -> Option<&'static Rule> {
    let taken = |rule: &&Rule| rule.name == name && rule.only.is_none_or(|only| only == kind);
    RULES.iter().find(taken)
}

/// The fields that a request must have, besides `messages`.
pub(super) const REQUIRED: &[&str] = &["model", "stream"];

fn boolean(value: &str) -> bool {
    matches!(value, "true" | "false")
}

fn is_true(value: &str) -> bool {
    value == "true"
}

fn within(value: &str, low: f64, high: f64) -> bool {
    serde_json::from_str(value).is_ok_and(|number: f64| (low..=high).contains(&number))
}

pub(super) fn integer(value: &str, low: u64, high: u64) -> bool {
    serde_json::from_str(value).is_ok_and(|number: u64| (low..=high).contains(&number))
}

pub(super) fn string(value: &str) -> Option<String> {
    serde_json::from_str(value).ok()
}

fn stop(value: &str) -> bool {
    let list = serde_json::from_str::<Vec<String>>(value);
    string(value).is_some() || list.is_ok_and(|list| list.len() <= MAX_STOPS)
}

fn tools(value: &str) -> bool {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Tool {
        #[serde(rename = "type")]
        _kind: OnlyFunction,
        #[serde(rename = "function")]
        _function: IgnoredAny,
    }
    serde_json::from_str(value).is_ok_and(|tools: Vec<Tool>| !tools.is_empty())
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum OnlyFunction {
    Function,
}

fn tool_choice(value: &str) -> bool {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Choice {
        #[serde(rename = "type")]
        _kind: OnlyFunction,
        #[serde(rename = "function")]
        _function: Named,
    }
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Named {
        #[serde(rename = "name")]
        _name: String,
    }
    matches!(value, "\"auto\"" | "\"none\"" | "\"required\"")
        || serde_json::from_str::<Choice>(value).is_ok()
}

fn response_format(value: &str) -> bool {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Format {
        #[serde(rename = "type")]
        kind: FormatKind,
        #[serde(default)]
        json_schema: Option<IgnoredAny>,
    }
    #[derive(Deserialize, PartialEq)]
    #[serde(rename_all = "snake_case")]
    enum FormatKind {
        Text,
        JsonObject,
        JsonSchema,
    }
    serde_json::from_str::<Format>(value)
        .is_ok_and(|format| (format.kind == FormatKind::JsonSchema) == format.json_schema.is_some())
}

fn stream_options(value: &str) -> bool {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Options {
        #[serde(default, rename = "include_usage")]
        _include_usage: bool,
    }
    serde_json::from_str::<Options>(value).is_ok()
}
