//! The entries and events of tool calls.

use crate::prompt::{Conversation, tool_result};
use crate::tools::{Catalog, Routed, route};
use bxcore::code::Code;
use bxcore::id::{CallId, TurnId};
use bxcore::label::Label;
use bxcore::money::MicroUsd;
use bxcore::text;
use bxcore::tool::ToolName;
use bxcore::transcript::{CallOutcome, NumberedCall, Tool};
use bxcore::wire::brokerd::CallResult;
use bxcore::wire::loopd::TurnEvent;

/// How much of arguments and results a watcher is shown, in bytes.
const MAX_SHOWN_BYTES: usize = 400;

/// A call that waits for its turn.
#[derive(Debug, Clone)]
pub(super) struct Due {
    pub(super) call: CallId,
    pub(super) routed: Routed,
    /// What a watcher sees of the arguments.
    shown: String,
}

impl Due {
    pub(super) fn new(call: &NumberedCall, max_argument_bytes: usize) -> Self {
        let routed = route(&call.written, max_argument_bytes);
        let arguments = match &routed {
            Routed::To { arguments, .. } => arguments,
            Routed::Refused { .. } => &call.written.arguments,
        };
        Self {
            call: call.call,
            shown: text::cap(arguments, MAX_SHOWN_BYTES).to_owned(),
            routed,
        }
    }

    /// A call whose end the model did not get to write.
    pub(super) fn cut(call: &NumberedCall, max_tokens: u32) -> Self {
        let due = Self::new(call, usize::MAX);
        let text = format!(
            "The call was cut off: the reply had reached its limit of {max_tokens} tokens. \
             Write less, or split it into several calls."
        );
        Self {
            routed: Routed::Refused {
                tool: due.routed.tool().clone(),
                outcome: CallOutcome::Denied,
                code: Code::InvalidArguments,
                text,
            },
            ..due
        }
    }

    /// What a watcher is told when its turn has come.
    pub(super) fn event(&self) -> TurnEvent {
        TurnEvent::ToolCall {
            call: self.call,
            tool: self.routed.tool().clone(),
            arguments: self.shown.clone(),
        }
    }
}

/// A result made by the turn itself: public and trusted, since it is our own text.
pub(crate) fn own_result(outcome: CallOutcome, code: Code, text: &str) -> CallResult {
    CallResult {
        outcome,
        code: Some(code),
        content: text.to_owned(),
        raw_bytes: u64::try_from(text.len()).unwrap_or(u64::MAX),
        label: Label::BOTTOM,
        session_label: Label::BOTTOM,
        audit: None,
        charge: None,
        replayed: false,
    }
}

/// The entry of an ended call.
pub(super) fn entry(
    turn: TurnId,
    call: CallId,
    tool: ToolName,
    result: &CallResult,
    conversation: &Conversation,
    catalog: &Catalog,
) -> Tool {
    let mut content = text::neutralise(&result.content).into_owned();
    if content.trim().is_empty() {
        // Nothing at all reads to a model as if the call had not been answered.
        "(nothing)".clone_into(&mut content);
    }
    if result.code == Some(Code::UnknownTool) {
        content.push_str(&ways_on(&tool, catalog));
    }
    let framed = text::frame(tool.as_str(), result.label, &content);
    Tool {
        turn,
        call,
        outcome: result.outcome,
        code: result.code,
        label: result.label,
        raw_bytes: result.raw_bytes,
        message: tool_result(conversation.mode(), call, &tool, &framed),
        audit: result.audit,
        // Set where it costs anything: `Turn::tool_ended`.
        cost: MicroUsd::ZERO,
        tool,
    }
}

/// What a model can do after it called a tool that doesn't exist.
fn ways_on(tool: &ToolName, catalog: &Catalog) -> String {
    match catalog.similar(tool.as_str()).as_slice() {
        [] => "\nUse find_tool to see which tools there are.".to_owned(),
        similar => format!("\nSimilar tools: {}.", similar.join(", ")),
    }
}

pub(super) fn result_event(entry: &Tool, content: &str) -> TurnEvent {
    TurnEvent::ToolResult {
        call: entry.call,
        tool: entry.tool.clone(),
        outcome: entry.outcome,
        code: entry.code,
        preview: text::cap(content, MAX_SHOWN_BYTES).to_owned(),
    }
}
