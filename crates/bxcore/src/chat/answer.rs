//! A whole answer, and putting it together from its chunks. Bounded.

use super::chunk::{ChunkChoice, FunctionDelta, ToolCallDelta};
use super::message::ToolCall;
use serde::{Deserialize, Serialize};

/// The most bytes an answer may have, reasoning and tool calls included.
pub const MAX_ANSWER_BYTES: usize = 4 * 1024 * 1024;
/// The most tool calls one answer may make.
pub const MAX_TOOL_CALLS_PER_ANSWER: usize = 32;

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

    /// How much of it has arrived, in bytes.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Every text of it that has arrived so far, apart from each other.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let calls = self.tool_calls.iter();
        let calls = calls.flat_map(|call| [call.name.as_str(), call.arguments.as_str()]);
        [self.content.as_str(), &self.reasoning]
            .into_iter()
            .chain(calls)
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
}
