//! The chat-completions dialect: messages as they are sent, answers as they stream in.
//!
//! Messages are kept as the exact JSON text that was first sent, because the prompt cache of the
//! server lives on a byte prefix.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::sync::Arc;

/// The most bytes an answer may have, reasoning and tool calls included.
pub const MAX_ANSWER_BYTES: usize = 4 * 1024 * 1024;
/// The most tool calls one answer may make.
pub const MAX_TOOL_CALLS_PER_ANSWER: usize = 32;

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

/// Why the model stopped writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// It was done.
    Stop,
    /// It reached the most tokens it was allowed.
    Length,
    /// It calls tools.
    ToolCalls,
    /// The server named another reason, or none.
    Other,
}

/// A whole answer of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelAnswer {
    /// What it said.
    pub content: String,
    /// What it thought, where the server tells the two apart.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reasoning: String,
    /// The tools it calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// Why it stopped.
    pub finish: Finish,
}

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
pub struct Delta {
    /// More of the answer.
    #[serde(default)]
    pub content: Option<String>,
    /// More of the reasoning.
    #[serde(default, alias = "reasoning")]
    pub reasoning_content: Option<String>,
    /// More of tool calls.
    #[serde(default)]
    pub tool_calls: Option<Vec<ToolCallDelta>>,
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
#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub struct WireUsage {
    /// Tokens of the prompt.
    #[serde(default)]
    pub prompt_tokens: u64,
    /// Tokens of the answer.
    #[serde(default)]
    pub completion_tokens: u64,
    /// How many prompt tokens came from a cache.
    #[serde(default)]
    pub prompt_tokens_details: Option<PromptTokensDetails>,
}

/// Part of [`WireUsage`].
#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub struct PromptTokensDetails {
    /// Prompt tokens from a cache.
    #[serde(default)]
    pub cached_tokens: Option<u64>,
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

/// What is wrong with a stream of chunks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// It grew past [`MAX_ANSWER_BYTES`].
    #[error("the answer is longer than {MAX_ANSWER_BYTES} bytes")]
    TooLong,
    /// It made more than [`MAX_TOOL_CALLS_PER_ANSWER`] calls.
    #[error("the answer makes more than {MAX_TOOL_CALLS_PER_ANSWER} tool calls")]
    TooManyCalls,
    /// It ended without the server saying so.
    #[error("the stream ended before the answer was complete")]
    CutOff,
}

/// Puts the chunks of a stream together to one answer.
#[derive(Debug, Clone, Default)]
pub struct AnswerBuilder {
    content: String,
    reasoning: String,
    tool_calls: Vec<ToolCall>,
    finish: Option<Finish>,
    bytes: usize,
}

impl AnswerBuilder {
    /// Adds one chunk's first choice.
    pub fn push(&mut self, choice: ChunkChoice) -> Result<(), AnswerError> {
        if let Some(text) = choice.delta.content {
            self.count(text.len())?;
            self.content.push_str(&text);
        }
        if let Some(text) = choice.delta.reasoning_content {
            self.count(text.len())?;
            self.reasoning.push_str(&text);
        }
        for piece in choice.delta.tool_calls.unwrap_or_default() {
            self.push_call(piece)?;
        }
        if let Some(reason) = choice.finish_reason {
            self.finish = Some(match reason.as_str() {
                "stop" => Finish::Stop,
                "length" => Finish::Length,
                "tool_calls" => Finish::ToolCalls,
                _ => Finish::Other,
            });
        }
        Ok(())
    }

    /// The answer; an error if the server never said why it stopped.
    pub fn finish(self) -> Result<ModelAnswer, AnswerError> {
        let finish = self.finish.ok_or(AnswerError::CutOff)?;
        let Self {
            content,
            reasoning,
            tool_calls,
            ..
        } = self;
        Ok(ModelAnswer {
            content,
            reasoning,
            tool_calls,
            finish,
        })
    }

    /// What has arrived of the answer's text.
    pub fn content(&self) -> &str {
        &self.content
    }

    fn count(&mut self, bytes: usize) -> Result<(), AnswerError> {
        self.bytes += bytes;
        if self.bytes > MAX_ANSWER_BYTES {
            Err(AnswerError::TooLong)
        } else {
            Ok(())
        }
    }

    fn push_call(&mut self, piece: ToolCallDelta) -> Result<(), AnswerError> {
        if piece.index >= MAX_TOOL_CALLS_PER_ANSWER {
            return Err(AnswerError::TooManyCalls);
        }
        while self.tool_calls.len() <= piece.index {
            self.tool_calls.push(ToolCall {
                id: String::new(),
                name: String::new(),
                arguments: String::new(),
            });
        }
        let FunctionDelta { name, arguments } = piece.function.unwrap_or(FunctionDelta {
            name: None,
            arguments: None,
        });
        let sizes = [&piece.id, &name, &arguments].map(|text| text.as_ref().map_or(0, String::len));
        self.count(sizes.iter().sum())?;
        let call = &mut self.tool_calls[piece.index];
        call.id.push_str(&piece.id.unwrap_or_default());
        call.name.push_str(&name.unwrap_or_default());
        call.arguments.push_str(&arguments.unwrap_or_default());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(json: &str) -> ChunkChoice {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn pieces_of_calls_are_joined() {
        let mut builder = AnswerBuilder::default();
        for piece in [
            r#"{"delta":{"role":"assistant","content":null}}"#,
            r#"{"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"clock","arguments":""}}]}}"#,
            r#"{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\""}}]}}"#,
            r#"{"delta":{"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]}}"#,
            r#"{"delta":{},"finish_reason":"tool_calls"}"#,
        ] {
            builder.push(choice(piece)).unwrap();
        }
        let answer = builder.finish().unwrap();
        assert_eq!(answer.finish, Finish::ToolCalls);
        assert_eq!(answer.tool_calls[0].arguments, r#"{"a":1}"#);
    }

    #[test]
    fn an_answer_is_bounded_and_must_end() {
        let mut builder = AnswerBuilder::default();
        let mut big = choice(r#"{"delta":{"content":"x"}}"#);
        big.delta.content = Some("x".repeat(MAX_ANSWER_BYTES));
        builder.push(big.clone()).unwrap();
        assert_eq!(builder.push(big), Err(AnswerError::TooLong));
        let far = choice(r#"{"delta":{"tool_calls":[{"index":4000000000}]}}"#);
        assert_eq!(
            AnswerBuilder::default().push(far),
            Err(AnswerError::TooManyCalls)
        );
        assert_eq!(AnswerBuilder::default().finish(), Err(AnswerError::CutOff));
    }

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
