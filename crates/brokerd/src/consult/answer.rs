//! Reading the answer. Pure.

use super::failure::ConsultFailure;
use crate::egress::{Refusal, Reply};
use serde::Deserialize;
use serde::de::IgnoredAny;

/// How many more tokens than bytes a question may be counted as: a template's own.
const TEMPLATE_TOKENS: u64 = 4096;

/// An answer.
#[derive(Debug, PartialEq, Eq)]
pub struct Answered {
    /// What it says.
    pub text: String,
    /// The tokens read and written, where the count can be true.
    pub tokens: Option<(u64, u64)>,
}

#[derive(Deserialize)]
struct Completion {
    #[serde(default)]
    choices: Vec<Choice>,
    #[serde(default)]
    usage: Option<Counted>,
}

#[derive(Deserialize)]
struct Choice {
    message: Option<Message>,
}

#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    tool_calls: Option<Vec<IgnoredAny>>,
}

#[derive(Deserialize)]
struct Counted {
    prompt_tokens: u64,
    completion_tokens: u64,
}

/// The answer in a reply to a request whose body had this many bytes.
///
/// # Errors
/// It is none: the class of what it is.
pub fn read(reply: &Reply, body_bytes: usize) -> Result<Answered, ConsultFailure> {
    if let Some(refusal) = Refusal::of(reply.status, reply.retry_after.as_deref()) {
        return Err(refusal.into());
    }
    let completion: Completion =
        serde_json::from_slice(&reply.body).map_err(|_| ConsultFailure::NotJson)?;
    let message = completion
        .choices
        .into_iter()
        .next()
        .and_then(|choice| choice.message);
    let message = message.ok_or(ConsultFailure::NoChoices)?;
    let text = message.content.unwrap_or_default();
    if text.trim().is_empty() {
        let calls = message.tool_calls.is_some_and(|calls| !calls.is_empty());
        return Err(if calls {
            ConsultFailure::ToolCalls
        } else {
            ConsultFailure::Empty
        });
    }
    let most = (body_bytes as u64).saturating_add(TEMPLATE_TOKENS);
    let counted = completion
        .usage
        .filter(|counted| counted.prompt_tokens <= most);
    Ok(Answered {
        text,
        tokens: counted.map(|counted| (counted.prompt_tokens, counted.completion_tokens)),
    })
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

    #[test]
    fn a_count_that_can_not_be_is_no_count() {
        let counted = |prompt: u64| {
            let body = format!(
                r#"{{"choices":[{{"message":{{"content":"a"}}}}],"usage":{{"prompt_tokens":{prompt},"completion_tokens":2}}}}"#
            );
            let reply = Reply {
                status: StatusCode::OK,
                retry_after: None,
                body: body.into(),
            };
            read(&reply, 10).unwrap().tokens
        };
        assert_eq!(counted(9), Some((9, 2)));
        assert_eq!(counted(u64::MAX), None);
    }
}
