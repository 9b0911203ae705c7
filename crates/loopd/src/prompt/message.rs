//! Messages as they are recorded and sent, by the way in which tools are called.

use super::reply::Reply;
use crate::tools::{FIND_TOOL, sanitised_name};
use bxcore::chat::{ModelAnswer, RawMessage, ToolCall};
use bxcore::id::CallId;
use bxcore::tool::ToolName;
use bxcore::transcript::{NumberedCall, ToolMode};
use serde_json::{Value, json};

/// What stands in place of an answer that never came, so that user and assistant take turns: some
/// templates refuse a conversation in which they don't.
const NO_ANSWER: &str = "(This turn ended without an answer.)";

/// The id of a call on the wire.
///
/// Nine letters and digits, since there are templates that refuse anything else. A number with
/// more than five digits makes it longer, and those templates then refuse it.
pub fn wire_id(call: CallId) -> String {
    format!("call{call:05}")
}

/// The message of an answer as it is sent back from now on.
///
/// In schema mode the reply stays exactly as the model wrote it. In native mode a call whose name
/// or arguments no server would take back is mended; what the model wrote is in `calls`.
pub fn assistant(
    mode: ToolMode,
    answer: &ModelAnswer,
    calls: &[NumberedCall],
    reasoning: KeptReasoning,
) -> RawMessage {
    let thought = match reasoning {
        KeptReasoning::SentBack => answer.reasoning.as_str(),
        KeptReasoning::Dropped => "",
    };
    if calls.is_empty() && answer.content.trim().is_empty() {
        return no_answer(mode);
    }
    match mode {
        ToolMode::Schema => RawMessage::assistant_thinking(thought, &answer.content, &[]),
        ToolMode::Native => {
            let sent: Vec<ToolCall> = calls
                .iter()
                .map(|call| sendable(call.call, &call.written))
                .collect();
            RawMessage::assistant_thinking(thought, &answer.content, &sent)
        }
    }
}

/// Whether the backend's template shows earlier reasoning to the model again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeptReasoning {
    /// It does, so reasoning is always sent back.
    SentBack,
    /// It does not, so reasoning is never sent back.
    Dropped,
}

/// The message with a tool's framed result.
pub fn tool_result(mode: ToolMode, call: CallId, tool: &ToolName, framed: &str) -> RawMessage {
    match mode {
        ToolMode::Native => RawMessage::tool(&wire_id(call), framed),
        // A template without tools knows no role for a result; the frame tells what it is.
        ToolMode::Schema => RawMessage::user(&format!("{framed}\n{}", next_step(tool))),
    }
}

/// What the model should do with a result. Without it a small model takes the result for the next
/// question, and calls the same tool again.
fn next_step(tool: &ToolName) -> &'static str {
    if tool.as_str() == FIND_TOOL {
        "Call the tool now."
    } else {
        "Answer the user now."
    }
}

/// The message that closes a turn without an answer.
pub(super) fn no_answer(mode: ToolMode) -> RawMessage {
    answer_text(mode, NO_ANSWER)
}

/// An answer of the model in the form of a mode.
pub(super) fn answer_text(mode: ToolMode, text: &str) -> RawMessage {
    match mode {
        ToolMode::Native => RawMessage::assistant(text, &[]),
        ToolMode::Schema => RawMessage::assistant(&json!({ "answer": text }).to_string(), &[]),
    }
}

/// Whether a recorded message stands for an answer that never came.
fn is_no_answer(mode: ToolMode, message: &RawMessage) -> bool {
    *message == no_answer(mode)
}

/// The text of a recorded answer, out of the message that carries it.
pub(crate) fn recorded_answer(mode: ToolMode, message: &RawMessage) -> String {
    if is_no_answer(mode, message) {
        return String::new();
    }
    let parsed: Value = serde_json::from_str(message.json()).unwrap_or(Value::Null);
    let content = parsed["content"].as_str().unwrap_or_default();
    match mode {
        ToolMode::Native => content.to_owned(),
        ToolMode::Schema => Reply::from_text(content).answer,
    }
}

/// A call as it can be sent back: servers fail the whole request on arguments that are no JSON
/// object, and some on names with other characters.
pub(super) fn sendable(number: CallId, written: &ToolCall) -> ToolCall {
    let object = serde_json::from_str::<Value>(&written.arguments)
        .is_ok_and(|arguments| arguments.is_object());
    let arguments = if object {
        written.arguments.as_str()
    } else {
        "{}"
    };
    ToolCall {
        id: wire_id(number),
        name: sanitised_name(&written.name).as_str().to_owned(),
        arguments: arguments.to_owned(),
    }
}
