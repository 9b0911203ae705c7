//! The chat template and the tokens of the simulated model: four bytes of rendered text a token.

use serde_json::Value;

use super::reply::Completion;
use super::request::text_of;
use crate::contract::Body;

/// Bytes of rendered text in one simulated token.
pub(super) const TOKEN_BYTES: usize = 4;

/// How many tokens `bytes` are.
pub(super) fn tokens(bytes: usize) -> usize {
    bytes.div_ceil(TOKEN_BYTES)
}

/// What the template knows, and what it writes differently from how the model generated it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Template {
    pub(super) has_tools: bool,
    pub(super) keeps_reasoning: bool,
    pub(super) rewrites_calls: bool,
}

impl Template {
    /// The prompt as the model reads it.
    pub(super) fn prompt(self, body: &Body) -> Vec<u8> {
        let mut text = Vec::with_capacity(body.raw().len());
        // A template without tools silently drops the array.
        if let Some(tools) = body.field("tools").filter(|_| self.has_tools) {
            text.extend_from_slice(b"<|tools|>");
            text.extend_from_slice(tools);
            text.extend_from_slice(END);
        }
        for message in body.messages() {
            self.message(&mut text, message);
            text.extend_from_slice(END);
        }
        text.extend_from_slice(b"<|assistant|>\n");
        text
    }

    fn message(self, text: &mut Vec<u8>, message: &Value) {
        let role = message["role"].as_str().unwrap_or("");
        text.extend_from_slice(format!("<|{role}|>\n").as_bytes());
        if self.keeps_reasoning
            && let Some(reasoning) = message["reasoning_content"].as_str()
        {
            text.extend_from_slice(thought(reasoning).as_bytes());
        }
        text.extend_from_slice(text_of(&message["content"]).as_bytes());
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let function = &call["function"];
            let name = function["name"].as_str().unwrap_or("");
            let arguments = function["arguments"].as_str().unwrap_or("");
            let written = if self.rewrites_calls {
                format!("<|call|>{{\"arguments\": {arguments}, \"name\": \"{name}\"}}")
            } else {
                generated_call(name, arguments)
            };
            text.extend_from_slice(written.as_bytes());
        }
    }
}

/// The answer as the model generates it: what stands in the slot's cache after the prompt.
pub(super) fn generated(completion: &Completion) -> Vec<u8> {
    let mut text = String::new();
    if !completion.reasoning.is_empty() {
        text.push_str(&thought(&completion.reasoning));
    }
    text.push_str(&completion.content);
    for call in &completion.calls {
        text.push_str(&generated_call(&call.name, &call.arguments));
    }
    text.into_bytes()
}

fn thought(reasoning: &str) -> String {
    format!("<think>{reasoning}</think>\n")
}

fn generated_call(name: &str, arguments: &str) -> String {
    format!("<|call|>{{\"name\": \"{name}\", \"arguments\": {arguments}}}")
}

const END: &[u8] = b"<|end|>\n";
