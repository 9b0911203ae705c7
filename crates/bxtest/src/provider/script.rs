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
    /// Nothing at all, until the other side gives up.
    Silence,
    /// The end of the connection.
    Close,
}

impl Answer {
    /// A chat completion that says this, and counts these tokens read and written.
    pub fn says(text: &str, prompt_tokens: u64, completion_tokens: u64) -> Self {
        Self::Json(200, completion(text, prompt_tokens, completion_tokens))
    }
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
