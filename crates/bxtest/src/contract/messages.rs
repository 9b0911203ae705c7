//! Whether `messages` is a conversation: roles, contents, and each tool call with its one result.

use serde_json::Value;

use super::breach::BreachKind;

type Found = Vec<(BreachKind, String)>;

/// Checks the messages of one request.
pub(super) fn check(messages: &[Value]) -> Found {
    let mut walk = Walk::default();
    for (index, message) in messages.iter().enumerate() {
        walk.step(index, message);
    }
    walk.end(messages);
    walk.found
}

/// The walk through one conversation: which calls still wait for their result.
#[derive(Default)]
struct Walk {
    waiting: Vec<String>,
    found: Found,
}

impl Walk {
    fn say(&mut self, kind: BreachKind, detail: String) {
        self.found.push((kind, detail));
    }

    fn step(&mut self, index: usize, message: &Value) {
        let role = message["role"].as_str().unwrap_or("");
        if role != "tool" && !self.waiting.is_empty() {
            let waiting = std::mem::take(&mut self.waiting).join(", ");
            self.say(
                BreachKind::Pairing,
                format!("message {index} ({role}) comes before the results of {waiting}"),
            );
        }
        let allowed: &[&str] = match role {
            "system" => &["role", "content"],
            "user" => &["role", "content", "name"],
            "assistant" => &["role", "content", "tool_calls", "reasoning_content", "name"],
            "tool" => &["role", "content", "tool_call_id", "name"],
            _ => {
                self.say(
                    BreachKind::Messages,
                    format!("message {index} has the role `{role}`"),
                );
                return;
            }
        };
        for key in message
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, _)| key)
        {
            if !allowed.contains(&key.as_str()) {
                self.say(
                    BreachKind::Messages,
                    format!("message {index} ({role}) has a `{key}`"),
                );
            }
        }
        match role {
            "system" if index > 0 => {
                self.say(
                    BreachKind::Messages,
                    format!("message {index} is a late system message"),
                );
            }
            "assistant" => self.assistant(index, message),
            "tool" => self.tool(index, message),
            _ => {}
        }
        if role != "assistant" && !is_content(&message["content"]) {
            self.say(
                BreachKind::Messages,
                format!("message {index} ({role}) has no content"),
            );
        }
    }

    fn assistant(&mut self, index: usize, message: &Value) {
        let content = &message["content"];
        let Some(calls) = message.get("tool_calls") else {
            if !content.is_string() {
                let detail = format!("message {index} (assistant) has no content and no calls");
                self.say(BreachKind::Messages, detail);
            }
            return;
        };
        if !(content.is_null() || content.is_string()) {
            self.say(
                BreachKind::Messages,
                format!("message {index} (assistant): odd content"),
            );
        }
        let calls = calls.as_array().map_or(&[][..], Vec::as_slice);
        if calls.is_empty() {
            self.say(
                BreachKind::Messages,
                format!("message {index}: `tool_calls` is empty"),
            );
        }
        for call in calls {
            self.call(index, call);
        }
    }

    fn call(&mut self, index: usize, call: &Value) {
        let id = call["id"].as_str().unwrap_or("").to_owned();
        if id.is_empty() || self.waiting.contains(&id) {
            self.say(
                BreachKind::Pairing,
                format!("message {index}: call id `{id}` is not unique"),
            );
        }
        let function = &call["function"];
        if call["type"] != "function" || function["name"].as_str().is_none_or(str::is_empty) {
            self.say(
                BreachKind::Messages,
                format!("message {index}: call `{id}` names no function"),
            );
        }
        let object = function["arguments"]
            .as_str()
            .and_then(|text| serde_json::from_str::<Value>(text).ok())
            .is_some_and(|value| value.is_object());
        if !object {
            let detail = format!("message {index}: the arguments of `{id}` are no JSON object");
            self.say(BreachKind::Arguments, detail);
        }
        self.waiting.push(id);
    }

    fn tool(&mut self, index: usize, message: &Value) {
        let id = message["tool_call_id"].as_str().unwrap_or("");
        if self.waiting.first().is_some_and(|next| next == id) {
            self.waiting.remove(0);
            return;
        }
        let expected = self.waiting.first().map_or("no result", String::as_str);
        let detail = format!("message {index} answers `{id}` where {expected} was due");
        self.waiting.retain(|waiting| waiting != id);
        self.say(BreachKind::Pairing, detail);
    }

    fn end(&mut self, messages: &[Value]) {
        if !self.waiting.is_empty() {
            let waiting = self.waiting.join(", ");
            self.say(BreachKind::Pairing, format!("no results for {waiting}"));
        }
        match messages
            .last()
            .map(|message| message["role"].as_str().unwrap_or(""))
        {
            Some("user" | "tool") => {}
            Some(role) => self.say(
                BreachKind::Messages,
                format!("the last message is by {role}"),
            ),
            None => self.say(BreachKind::Messages, "there are no messages".to_owned()),
        }
    }
}

fn is_content(content: &Value) -> bool {
    let part = |part: &Value| part["type"] == "text" && part["text"].is_string();
    content.is_string()
        || content
            .as_array()
            .is_some_and(|parts| !parts.is_empty() && parts.iter().all(part))
}
