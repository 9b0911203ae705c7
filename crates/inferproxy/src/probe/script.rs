//! What a probe sends. Pure.
//!
//! Two conversations of some 300 tokens that share no beginning, so that one can't profit from the
//! cache of the other; the third call goes on with the first one's.

use bxcore::wire::inferproxy::{BackendInfo, BackendKind};
use serde_json::{Map, Value, json};

/// How many words stand in a prompt; a word is about a token, in some tokenizers two.
const PROMPT_WORDS: usize = 220;
/// How many tokens the replies of the cache test may have.
const CACHE_REPLY_TOKENS: u32 = 8;
/// How many tokens the other replies may have.
const CHECK_REPLY_TOKENS: u32 = 96;
/// The tool that the server should be held to.
pub(super) const TOOL: &str = "report_colour";
/// The only value that the schema admits.
pub(super) const ONLY_VALUE: &str = "teal";

const WORDS: &[&str] = &[
    "river", "stone", "window", "garden", "yellow", "market", "winter", "letter", "bridge",
    "music", "copper", "island", "candle", "forest", "silver", "basket", "harbour", "morning",
    "pepper", "shadow", "train", "village", "wool", "anchor", "butter", "cloud", "dinner",
    "engine",
];

/// Which of the two conversations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Talk {
    /// The live turn's.
    Main,
    /// The helper's.
    Background,
}

/// The messages that open a conversation; `salt` makes them new to the server's cache.
pub(super) fn opening(talk: Talk, salt: u64) -> Vec<Value> {
    let (title, step) = match talk {
        Talk::Main => ("First list", 5),
        Talk::Background => ("Second list", 11),
    };
    let start = usize::try_from(salt % 1_000).unwrap_or(0);
    let words: Vec<&str> = (0..PROMPT_WORDS)
        .map(|at| WORDS[(start + at * step + at / WORDS.len()) % WORDS.len()])
        .collect();
    vec![
        json!({"role": "system", "content": format!("{title} {salt}: {}.", words.join(" "))}),
        json!({"role": "user", "content": "Name one word of the list."}),
    ]
}

/// The conversation after its first answer, with one more question.
pub(super) fn continued(mut messages: Vec<Value>, answer: &str) -> Vec<Value> {
    messages.push(json!({"role": "assistant", "content": answer}));
    messages.push(json!({"role": "user", "content": "Name another one."}));
    messages
}

/// A request of the cache test.
pub(super) fn cache_body(
    info: &BackendInfo,
    slot: Option<u32>,
    messages: &[Value],
) -> Map<String, Value> {
    body(info, slot, messages, CACHE_REPLY_TOKENS)
}

/// A request that a server which can force a tool answers with a call of it.
pub(super) fn forced_tool_body(info: &BackendInfo, slot: Option<u32>) -> Map<String, Value> {
    let messages = [json!({"role": "user", "content": "Say hello."})];
    let mut body = body(info, slot, &messages, CHECK_REPLY_TOKENS);
    body.insert(
        "tools".into(),
        json!([{"type": "function", "function": {
            "name": TOOL,
            "description": "Reports a colour.",
            "parameters": {
                "type": "object",
                "properties": {"colour": {"type": "string", "maxLength": 16}},
                "required": ["colour"],
                "additionalProperties": false,
            },
        }}]),
    );
    body.insert(
        "tool_choice".into(),
        json!({"type": "function", "function": {"name": TOOL}}),
    );
    body
}

/// A request that a server which holds answers to a schema answers with one certain value.
pub(super) fn schema_body(info: &BackendInfo, slot: Option<u32>) -> Map<String, Value> {
    let messages = [json!({"role": "user", "content": "Say hello."})];
    let mut body = body(info, slot, &messages, CHECK_REPLY_TOKENS);
    body.insert(
        "response_format".into(),
        json!({"type": "json_schema", "json_schema": {
            "name": "colour",
            "strict": true,
            "schema": {
                "type": "object",
                "properties": {"colour": {"type": "string", "enum": [ONLY_VALUE]}},
                "required": ["colour"],
                "additionalProperties": false,
            },
        }}),
    );
    body
}

fn body(
    info: &BackendInfo,
    slot: Option<u32>,
    messages: &[Value],
    max_tokens: u32,
) -> Map<String, Value> {
    let mut body = Map::new();
    body.insert("model".into(), info.model.clone().into());
    body.insert("messages".into(), messages.into());
    body.insert("temperature".into(), 0.into());
    body.insert("max_tokens".into(), max_tokens.into());
    body.insert("stream".into(), true.into());
    body.insert("stream_options".into(), json!({"include_usage": true}));
    if info.kind == BackendKind::LlamaServer {
        body.insert("cache_prompt".into(), true.into());
        body.insert("return_progress".into(), true.into());
        if let Some(slot) = slot {
            body.insert("id_slot".into(), slot.into());
        }
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_conversations_have_no_common_beginning() {
        for salt in [0, 7, u64::MAX] {
            let [main, other] = [Talk::Main, Talk::Background].map(|talk| {
                opening(talk, salt)[0]["content"]
                    .as_str()
                    .unwrap()
                    .to_owned()
            });
            let common = main
                .bytes()
                .zip(other.bytes())
                .take_while(|(a, b)| a == b)
                .count();
            assert!(common < 8, "{common}");
            assert!(main.split(' ').count() > 200);
        }
        assert_ne!(opening(Talk::Main, 1), opening(Talk::Main, 2));
    }

    #[test]
    fn the_third_request_goes_on_with_the_first() {
        let first = opening(Talk::Main, 1);
        let third = continued(first.clone(), "river");
        assert_eq!(third[..2], first[..]);
        assert_eq!(third.len(), 4);
    }
}
