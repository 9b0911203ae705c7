//! The chunks in which an answer streams in, as servers write them. Unknown members are ignored.

use serde::{Deserialize, Serialize};

/// One `data:` of a chat-completions stream.
#[derive(Debug, Clone, Deserialize)]
pub struct Chunk {
    /// The alternatives; only the first is read. Absent on a chunk that carries figures only.
    #[serde(default)]
    pub choices: Vec<ChunkChoice>,
    /// Token counts, on the last chunk.
    #[serde(default)]
    pub usage: Option<WireUsage>,
    /// Measurements of llama-server, on the last chunk.
    #[serde(default)]
    pub timings: Option<Timings>,
    /// How far llama-server has read the prompt.
    #[serde(default)]
    pub prompt_progress: Option<PromptProgress>,
    /// An error that the server reports in the middle of a stream.
    #[serde(default)]
    pub error: Option<serde_json::Value>,
}

/// One alternative of a chunk.
#[derive(Debug, Clone, Deserialize)]
pub struct ChunkChoice {
    /// What is new.
    #[serde(default)]
    pub delta: Delta,
    /// Why it ended, on its last chunk.
    #[serde(default)]
    pub finish_reason: Option<String>,
}

/// What a chunk adds.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(from = "WireDelta")]
pub struct Delta {
    /// More of the answer.
    pub content: Option<String>,
    /// More of the reasoning.
    pub reasoning_content: Option<String>,
    /// More of tool calls.
    pub tool_calls: Option<Vec<ToolCallDelta>>,
}

/// The same as it is written: some servers call the reasoning this, some that, some say it twice.
#[derive(Deserialize)]
struct WireDelta {
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    reasoning_content: Option<String>,
    #[serde(default)]
    reasoning: Option<String>,
    #[serde(default)]
    tool_calls: Option<Vec<ToolCallDelta>>,
}

impl From<WireDelta> for Delta {
    fn from(wire: WireDelta) -> Self {
        Self {
            content: wire.content,
            reasoning_content: wire.reasoning_content.or(wire.reasoning),
            tool_calls: wire.tool_calls,
        }
    }
}

/// A piece of a tool call.
#[derive(Debug, Clone, Deserialize)]
pub struct ToolCallDelta {
    /// Which call it belongs to.
    #[serde(default)]
    pub index: usize,
    /// The call's id, on its first piece.
    #[serde(default)]
    pub id: Option<String>,
    /// Name and arguments.
    #[serde(default)]
    pub function: Option<FunctionDelta>,
}

/// A piece of a called function.
#[derive(Debug, Clone, Deserialize)]
pub struct FunctionDelta {
    /// The name, on the first piece.
    #[serde(default)]
    pub name: Option<String>,
    /// More of the arguments.
    #[serde(default)]
    pub arguments: Option<String>,
}

/// Token counts as servers report them.
///
/// Servers disagree about what they leave out and how they write a number, and an answer is not
/// thrown away for that: what can't be read as a count is 0, which no call has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "serde_json::Value")]
pub struct WireUsage {
    /// Tokens of the prompt.
    pub prompt_tokens: u64,
    /// Tokens of the answer.
    pub completion_tokens: u64,
    /// How many prompt tokens came from a cache.
    pub cached_tokens: Option<u64>,
}

impl From<serde_json::Value> for WireUsage {
    fn from(usage: serde_json::Value) -> Self {
        let count = |pointer| usage.pointer(pointer).and_then(count);
        Self {
            prompt_tokens: count("/prompt_tokens").unwrap_or(0),
            completion_tokens: count("/completion_tokens").unwrap_or(0),
            cached_tokens: count("/prompt_tokens_details/cached_tokens"),
        }
    }
}

/// A count, of a number of whatever kind. One that is larger than any count is the largest.
fn count(value: &serde_json::Value) -> Option<u64> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the cast saturates, and what is below zero was turned away"
    )]
    let rounded = |float: f64| (float >= 0.0).then(|| float.ceil() as u64);
    value.as_u64().or_else(|| value.as_f64().and_then(rounded))
}

/// Measurements of llama-server.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub struct Timings {
    /// Prompt tokens that were in the cache.
    #[serde(default)]
    pub cache_n: Option<u64>,
    /// Prompt tokens that were read.
    #[serde(default)]
    pub prompt_n: u64,
    /// Time for them, in milliseconds.
    #[serde(default)]
    pub prompt_ms: f64,
    /// Tokens written.
    #[serde(default)]
    pub predicted_n: u64,
    /// Time for them, in milliseconds.
    #[serde(default)]
    pub predicted_ms: f64,
}

/// How far a prompt has been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptProgress {
    /// Tokens of the whole prompt.
    pub total: u64,
    /// Tokens done, those from the cache included.
    pub processed: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasoning_is_read_under_either_name_and_once_where_both_are_there() {
        for (delta, expect) in [
            (r#"{"reasoning_content":"a"}"#, Some("a")),
            (r#"{"reasoning":"a"}"#, Some("a")),
            (r#"{"reasoning":"a","reasoning_content":"a"}"#, Some("a")),
            (r#"{"reasoning":null,"reasoning_content":"a"}"#, Some("a")),
            (r#"{"reasoning":"a","reasoning_content":null}"#, Some("a")),
            (r#"{"content":"a"}"#, None),
        ] {
            let delta: Delta = serde_json::from_str(delta).unwrap();
            assert_eq!(delta.reasoning_content.as_deref(), expect);
        }
    }

    #[test]
    fn counts_are_read_however_they_are_written() {
        let check = |text: &str, expect: (u64, u64, Option<u64>)| {
            let chunk: Chunk = serde_json::from_str(&format!(r#"{{"usage":{text}}}"#)).unwrap();
            let usage = chunk.usage.unwrap();
            let read = (
                usage.prompt_tokens,
                usage.completion_tokens,
                usage.cached_tokens,
            );
            assert_eq!(read, expect, "{text}");
        };
        check(
            r#"{"prompt_tokens":9,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}"#,
            (9, 2, Some(4)),
        );
        check(
            r#"{"prompt_tokens":9.0,"completion_tokens":1.5}"#,
            (9, 2, None),
        );
        check(r#"{"prompt_tokens":9}"#, (9, 0, None));
        check(
            r#"{"prompt_tokens":9,"completion_tokens":null}"#,
            (9, 0, None),
        );
        check(
            r#"{"prompt_tokens":"9","completion_tokens":-2}"#,
            (0, 0, None),
        );
        check(
            r#"{"prompt_tokens":1e300,"completion_tokens":[]}"#,
            (u64::MAX, 0, None),
        );
        check(
            r#"{"prompt_tokens":9,"completion_tokens":2,"prompt_tokens_details":[]}"#,
            (9, 2, None),
        );
        check(r#""many""#, (0, 0, None));
        check("[]", (0, 0, None));
    }
}
