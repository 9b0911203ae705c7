//! The body of the one request. Pure.

use serde::Serialize;
use serde_json::Value;

/// The name of the tool's one argument.
pub const ARGUMENT: &str = "question";

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    temperature: f64,
    messages: [Message<'a>; 1],
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: &'a str,
}

/// What is sent, byte for byte; none where the arguments hold no question.
pub fn body(model: &str, temperature: f64, arguments: &Value) -> Option<String> {
    let content = arguments.get(ARGUMENT)?.as_str()?;
    let message = Message {
        role: "user",
        content,
    };
    let body = Body {
        model,
        temperature,
        messages: [message],
    };
    serde_json::to_string(&body).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_body_has_the_question_and_nothing_else() {
        let text = body("big-1", 0.6, &json!({"question": "Why \"so\"?\n\u{0}"}));
        assert_eq!(
            text.unwrap(),
            r#"{"model":"big-1","temperature":0.6,"messages":[{"role":"user","content":"Why \"so\"?\n\u0000"}]}"#
        );
        assert_eq!(body("big-1", 0.6, &json!({})), None);
        assert_eq!(body("big-1", 0.6, &json!({"question": 1})), None);
    }
}
