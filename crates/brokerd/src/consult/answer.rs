//! Reading the answer. Pure.

use super::failure::ConsultFailure;
use crate::egress::{Refusal, Reply};
use bxcore::chat::WireUsage;
use serde::Deserialize;
use serde_json::value::RawValue;

/// How many more tokens than bytes a question may be counted as: a template's own.
const TEMPLATE_TOKENS: u64 = 4096;
/// How many more tokens than bytes an answer may be counted as: what a model thought before it, and
/// does not show.
const UNSEEN_TOKENS: u64 = 131_072;

/// An answer.
#[derive(Debug, PartialEq, Eq)]
pub struct Answered {
    /// What it says.
    pub text: String,
    /// The tokens read and written, where the count can be true.
    pub tokens: Option<(u64, u64)>,
}

/// An answer as services write it. Read leniently, since it is paid; what is passed on is its text
/// and nothing else.
#[derive(Deserialize)]
struct Completion<'a> {
    #[serde(default, borrow)]
    choices: Vec<Choice<'a>>,
    #[serde(default)]
    usage: Option<WireUsage>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(default, borrow)]
    message: Option<Message<'a>>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(default, borrow)]
    content: Option<&'a RawValue>,
    #[serde(default, borrow)]
    tool_calls: Option<&'a RawValue>,
}

/// What an answer says: a text, or a list of parts of which some are text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Deserialize)]
struct Part {
    #[serde(default, rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    text: Option<String>,
}

impl Message<'_> {
    fn text(&self) -> String {
        let content = self.content.map(|raw| serde_json::from_str(raw.get()));
        match content {
            Some(Ok(Content::Text(text))) => text,
            Some(Ok(Content::Parts(parts))) => parts
                .into_iter()
                .filter(|part| part.kind.as_deref().is_none_or(|kind| kind == "text"))
                .filter_map(|part| part.text)
                .collect(),
            Some(Err(_)) | None => String::new(),
        }
    }

    fn calls_tools(&self) -> bool {
        let nothing = ["null", "[]"];
        let calls = |raw: &&RawValue| !nothing.contains(&raw.get());
        self.tool_calls.as_ref().is_some_and(calls)
    }
}

/// The answer in a reply to a request whose body had this many bytes.
///
/// # Errors
/// It is none: the class of what it is.
pub fn read(reply: &Reply, body_bytes: usize) -> Result<Answered, ConsultFailure> {
    if let Some(refusal) = Refusal::of(reply.status, reply.retry_after) {
        return Err(refusal.into());
    }
    let completion: Completion<'_> =
        serde_json::from_slice(&reply.body).map_err(|_| ConsultFailure::NotJson)?;
    let first = completion.choices.into_iter().next();
    let message = first.and_then(|choice| choice.message);
    let message = message.ok_or(ConsultFailure::NoChoices)?;
    let text = message.text();
    if text.trim().is_empty() {
        return Err(if message.calls_tools() {
            ConsultFailure::ToolCalls
        } else {
            ConsultFailure::Empty
        });
    }
    let tokens = completion
        .usage
        .filter(|usage| can_be(usage, body_bytes, reply.body.len()))
        .map(|usage| (usage.prompt_tokens, usage.completion_tokens));
    Ok(Answered { text, tokens })
}

/// Whether a count can be that of a question and an answer in bodies of these lengths: neither is
/// nothing, and a token is a byte at the least.
fn can_be(usage: &WireUsage, question_bytes: usize, answer_bytes: usize) -> bool {
    let within = |tokens: u64, bytes: usize, more: u64| {
        (1..=(bytes as u64).saturating_add(more)).contains(&tokens)
    };
    within(usage.prompt_tokens, question_bytes, TEMPLATE_TOKENS)
        && within(usage.completion_tokens, answer_bytes, UNSEEN_TOKENS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::StatusCode;
    use bytes::Bytes;

    fn class(status: u16, body: &str) -> &'static str {
        let reply = Reply {
            status: StatusCode::from_u16(status).unwrap(),
            retry_after: None,
            body: Bytes::copy_from_slice(body.as_bytes()),
        };
        read(&reply, 10).map_or_else(|failure| failure.class(), |_| "ok")
    }

    #[test]
    fn each_answer_has_its_class() {
        let good = r#"{"choices":[{"message":{"content":"Yes."}}]}"#;
        assert_eq!(class(200, good), "ok");
        for (status, expect) in [
            (204, "status"),
            (301, "redirect"),
            (308, "redirect"),
            (400, "rejected"),
            (401, "unauthorised"),
            (402, "payment-required"),
            (403, "forbidden"),
            (404, "not-found"),
            (429, "rate-limited"),
            (500, "server-error"),
            (503, "server-error"),
        ] {
            assert_eq!(class(status, good), expect, "{status}");
        }
        for (body, expect) in [
            ("", "not-json"),
            ("<html>", "not-json"),
            ("[]", "no-choices"),
            ("{}", "no-choices"),
            (r#"{"choices":[]}"#, "no-choices"),
            (r#"{"choices":[{}]}"#, "no-choices"),
            (r#"{"choices":"x"}"#, "not-json"),
            (r#"{"choices":[{"message":{}}]}"#, "empty"),
            (r#"{"choices":[{"message":{"content":" \n"}}]}"#, "empty"),
            (
                r#"{"choices":[{"message":{"content":null,"tool_calls":[{"id":"x"}]}}]}"#,
                "tool-calls",
            ),
            (&format!("{good}{good}"), "not-json"),
        ] {
            assert_eq!(class(200, body), expect, "{body}");
        }
    }

    fn answered(content: &str, usage: &str) -> Answered {
        let body =
            format!(r#"{{"choices":[{{"message":{{"content":{content}}}}}],"usage":{usage}}}"#);
        let reply = Reply {
            status: StatusCode::OK,
            retry_after: None,
            body: body.into(),
        };
        read(&reply, 10).unwrap()
    }

    #[test]
    fn a_count_that_can_not_be_is_no_count() {
        let counted = |prompt: u64, completion: u64| {
            let usage = format!(
                r#"{{"prompt_tokens":{prompt},"completion_tokens":{completion},"total_tokens":"x"}}"#
            );
            answered("\"a\"", &usage).tokens
        };
        for (prompt, completion) in [(9, 2), (1, 1), (4106, UNSEEN_TOKENS)] {
            assert_eq!(counted(prompt, completion), Some((prompt, completion)));
        }
        let absurd = UNSEEN_TOKENS + 1000;
        for (prompt, completion) in [
            (0, 0),
            (0, 2),
            (9, 0),
            (4107, 2),
            (9, absurd),
            (u64::MAX, 2),
            (9, u64::MAX),
        ] {
            assert_eq!(counted(prompt, completion), None, "{prompt} {completion}");
        }
    }

    #[test]
    fn a_paid_answer_is_read_however_odd_the_rest_is() {
        for (usage, expect) in [
            (
                r#"{"prompt_tokens":9.0,"completion_tokens":2.0}"#,
                Some((9, 2)),
            ),
            (r#"{"prompt_tokens":9}"#, None),
            (r#"{"prompt_tokens":9,"completion_tokens":null}"#, None),
            ("null", None),
            ("[]", None),
            ("\"x\"", None),
        ] {
            assert_eq!(answered("\"a\"", usage).tokens, expect, "{usage}");
        }
        for (content, expect) in [
            (
                r#"[{"type":"text","text":"Yes, "},{"type":"text","text":"so."}]"#,
                "Yes, so.",
            ),
            (
                r#"[{"text":"Yes."},{"type":"image_url","image_url":{"url":"x"}}]"#,
                "Yes.",
            ),
            (
                r#"[{"type":"reasoning","text":"Hm."},{"type":"text","text":"Yes."}]"#,
                "Yes.",
            ),
        ] {
            assert_eq!(answered(content, "null").text, expect, "{content}");
        }
        let odd = r#"{"choices":[{"message":{"content":"Yes.","tool_calls":{},"audio":7}}]}"#;
        assert_eq!(class(200, odd), "ok");
        for content in ["7", "{}", "[]", "[7]", r#"[{"type":"image_url"}]"#] {
            let body = format!(r#"{{"choices":[{{"message":{{"content":{content}}}}}]}}"#);
            assert_eq!(class(200, &body), "empty", "{content}");
        }
    }
}
