//! What this world's server makes of messages: a template and a tokeniser.
//!
//! A token is four bytes of the rendered prompt, of what was read as of what was written, so a bound
//! that loopd reserves has to hold here without any allowance.

use bxcore::chat::{Finish, ModelAnswer};
use serde_json::Value;
use serde_json::value::RawValue;

const TOKEN_BYTES: usize = 4;

/// The tokens of a prompt: its tools, its messages and the opening of the answer.
pub fn prompt_tokens(tools: Option<&RawValue>, messages: &[Value]) -> u64 {
    let mut prompt = tools.map_or_else(String::new, |tools| tools.get().to_owned());
    for message in messages {
        prompt += &opened(message["role"].as_str().unwrap());
        prompt += message["content"].as_str().unwrap_or_default();
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let function = &call["function"];
            prompt += &called(
                function["name"].as_str().unwrap(),
                function["arguments"].as_str().unwrap(),
            );
        }
        prompt += "<|im_end|>\n";
    }
    tokens(&(prompt + &opened("assistant")))
}

/// The answer as far as `max_tokens` reach, and how many tokens were written.
pub fn written(mut answer: ModelAnswer, max_tokens: u32) -> (ModelAnswer, u64) {
    let room = usize::try_from(max_tokens).unwrap() * TOKEN_BYTES;
    while text(&answer).len() > room {
        answer.finish = Finish::Length;
        let last = answer.tool_calls.last_mut();
        let cut = last.map_or(&mut answer.content, |call| &mut call.arguments);
        if cut.pop().is_none() {
            answer.tool_calls.pop();
        }
    }
    let tokens = tokens(&text(&answer));
    (answer, tokens)
}

fn text(answer: &ModelAnswer) -> String {
    let calls = answer.tool_calls.iter();
    let calls: String = calls
        .map(|call| called(&call.name, &call.arguments))
        .collect();
    format!("{}{}{calls}", answer.reasoning, answer.content)
}

fn opened(role: &str) -> String {
    format!("<|im_start|>{role}\n")
}

fn called(name: &str, arguments: &str) -> String {
    format!("<tool_call>\n{{\"name\": \"{name}\", \"arguments\": {arguments}}}\n</tool_call>\n")
}

fn tokens(text: &str) -> u64 {
    u64::try_from(text.len().div_ceil(TOKEN_BYTES)).unwrap()
}
