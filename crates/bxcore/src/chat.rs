//! The chat-completions dialect: messages as they are sent, answers as they stream in.
//!
//! Messages are kept as the exact JSON text that was first sent, because the prompt cache of the
//! server lives on a byte prefix.

mod answer;
mod chunk;
mod message;
mod request;
mod stream;

pub use answer::{
    AnswerBuilder, AnswerError, Finish, MAX_ANSWER_BYTES, MAX_TOOL_CALLS_PER_ANSWER, ModelAnswer,
};
pub use chunk::{
    Chunk, ChunkChoice, Delta, FunctionDelta, PromptProgress, Timings, ToolCallDelta, WireUsage,
};
pub use message::{RawMessage, ToolCall};
pub use request::{Expected, MAX_REPLY_TOKENS, check_body};
pub use stream::{CallFacts, Fault, MAX_ANSWER_TEXT_BYTES, MAX_STREAM_BYTES, Meter, error_text};
