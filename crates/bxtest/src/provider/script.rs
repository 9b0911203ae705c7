//! What the service answers.

use serde_json::{Value, json};
use std::time::Duration;

/// One answer.
#[derive(Debug, Clone)]
pub enum Answer {
    /// A whole answer of JSON with this status.
    Json(u16, Value),
    /// A whole answer with this status, further header lines, and body.
    Text(u16, Vec<String>, Vec<u8>),
    /// These bytes, whatever they are, and then the end of the connection.
    Raw(Vec<u8>),
    /// A head that promises this much, the body's beginning, and then the end of the connection.
    CutOff {
        /// What the head promises, in bytes.
        promised: usize,
        /// What comes.
        body: Vec<u8>,
    },
    /// A body that never ends, as fast as it goes.
    Endless,
    /// A body that never ends, a byte at a time.
    Drip(Duration),
    /// A stream of events, piece by piece.
    Stream(Vec<Vec<u8>>, StreamEnd),
    /// Nothing at all, until the other side gives up.
    Silence,
    /// The end of the connection.
    Close,
}

/// How a stream of events ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamEnd {
    /// As it should.
    Whole,
    /// With the end of the connection.
    CutOff,
    /// Not at all: nothing more comes, until the other side gives up.
    Silence,
    /// Not at all: this comes again and again, until the other side gives up.
    Repeats(&'static str),
}

impl Answer {
    /// A stream of a chat completion that says this, and counts these tokens read and written.
    pub fn streams(text: &str, prompt_tokens: u64, completion_tokens: u64) -> Self {
        let words = text.split_inclusive(' ');
        let words = words.map(|word| json!({"content": word}));
        Self::streamed(words, "stop", prompt_tokens, completion_tokens)
    }

    /// A stream of a chat completion that calls a tool.
    pub fn streams_call(name: &str, arguments: &Value) -> Self {
        let function = json!({"name": name, "arguments": arguments.to_string()});
        let call = json!({"index": 0, "id": "call_1", "type": "function", "function": function});
        let deltas = [json!({"content": null}), json!({"tool_calls": [call]})];
        Self::streamed(deltas.into_iter(), "tool_calls", 100, 20)
    }

    fn streamed(
        deltas: impl Iterator<Item = Value>,
        finish: &str,
        prompt_tokens: u64,
        completion_tokens: u64,
    ) -> Self {
        let mut pieces = vec![b": thinking\n\n".to_vec()];
        pieces.extend(deltas.map(|delta| {
            event(&json!({
                "choices": [{"index": 0, "delta": delta, "finish_reason": null}]
            }))
        }));
        pieces.push(event(&json!({
            "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]
        })));
        pieces.push(event(&json!({
            "choices": [],
            "usage": {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens}
        })));
        pieces.push(b"data: [DONE]\n\n".to_vec());
        Self::Stream(pieces, StreamEnd::Whole)
    }

    /// A chat completion that says this, and counts these tokens read and written.
    pub fn says(text: &str, prompt_tokens: u64, completion_tokens: u64) -> Self {
        Self::Json(200, completion(text, prompt_tokens, completion_tokens))
    }
}

/// One event of a stream.
pub fn event(data: &Value) -> Vec<u8> {
    format!("data: {data}\n\n").into_bytes()
}

/// The JSON of a chat completion.
pub fn completion(text: &str, prompt_tokens: u64, completion_tokens: u64) -> Value {
    json!({
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "choices": [{
            "index": 0,
            "message": {"role": "assistant", "content": text},
            "finish_reason": "stop"
        }],
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens
        }
    })
}
