//! What a model server means by an answer that is none. Pure.

use axum::http::StatusCode;
use bxcore::chat::error_text;
use bxcore::code::Code;
use bxcore::problem::Problem;
use serde::Deserialize;
use std::time::Duration;

/// The pause that is kept where a server asks for one and doesn't say how long.
const DEFAULT_PAUSE_SECS: u64 = 1;

/// What to do about a refused call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// Wait until the model is loaded, then send it again.
    Loading,
    /// Wait so long, then send it again.
    Pause(Duration),
    /// Give it up.
    Final(Problem),
}

/// Reads a status that is not 200, with its `retry-after` header and its body.
pub fn read_refusal(
    backend: &str,
    status: StatusCode,
    retry_after: Option<&str>,
    body: &[u8],
) -> Refusal {
    let pause = retry_after.map(|text| text.trim().parse().unwrap_or(DEFAULT_PAUSE_SECS));
    match (status, pause) {
        (StatusCode::TOO_MANY_REQUESTS, pause) => {
            Refusal::Pause(Duration::from_secs(pause.unwrap_or(DEFAULT_PAUSE_SECS)))
        }
        (StatusCode::SERVICE_UNAVAILABLE, Some(pause)) => {
            Refusal::Pause(Duration::from_secs(pause))
        }
        (StatusCode::SERVICE_UNAVAILABLE, None) => Refusal::Loading,
        _ => Refusal::Final(problem(backend, status, body)),
    }
}

#[derive(Deserialize)]
struct ErrorBody {
    error: ErrorObject,
}

#[derive(Deserialize)]
struct ErrorObject {
    #[serde(default, rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    code: Option<serde_json::Value>,
    #[serde(default)]
    message: Option<String>,
}

fn problem(backend: &str, status: StatusCode, body: &[u8]) -> Problem {
    let text = error_text(body);
    if is_context_exceeded(status, body) {
        return Problem::new(
            Code::ContextFull,
            "The conversation no longer fits the model's context",
        )
        .detail(text)
        .hint("begin a new session, or start the server with a larger context (-c)");
    }
    let number = status.as_u16();
    let problem = Problem::new(
        Code::BackendError,
        format!("The model server `{backend}` answered with an error"),
    )
    .detail(format!("status {number}: {text}"));
    match number {
        401 | 403 => problem.hint("start it without an API key: only your own programs reach it"),
        300..=399 => problem.hint("redirects are not followed: name the server's own address"),
        404 => {
            problem.hint("is `url` the server's base address, and the model's name known to it?")
        }
        _ => problem.hint("the server's own log tells more"),
    }
}

/// llama-server has a type for it, OpenAI a code; others only words.
fn is_context_exceeded(status: StatusCode, body: &[u8]) -> bool {
    if !matches!(status.as_u16(), 400 | 413 | 422 | 500) {
        return false;
    }
    let Ok(ErrorBody { error }) = serde_json::from_slice(body) else {
        return false;
    };
    let code = error.code.as_ref().and_then(|code| code.as_str());
    let message = error.message.unwrap_or_default().to_ascii_lowercase();
    error.kind.as_deref() == Some("exceed_context_size_error")
        || code == Some("context_length_exceeded")
        || [
            "maximum context length",
            "context length exceeded",
            "available context size",
        ]
        .iter()
        .any(|words| message.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(status: u16, body: &str) -> Code {
        match read_refusal(
            "a",
            StatusCode::from_u16(status).unwrap(),
            None,
            body.as_bytes(),
        ) {
            Refusal::Final(problem) => problem.code,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn pauses_and_loading_are_told_apart() {
        let check = |status, retry_after, expect| {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(read_refusal("a", status, retry_after, b""), expect);
        };
        let pause = |secs| Refusal::Pause(Duration::from_secs(secs));
        check(429, Some("7"), pause(7));
        check(429, Some("Wed, 21 Oct 2026 07:28:00 GMT"), pause(1));
        check(429, None, pause(1));
        check(503, Some("2"), pause(2));
        check(503, None, Refusal::Loading);
    }

    #[test]
    fn a_full_context_is_recognised_whoever_says_it() {
        for body in [
            r#"{"error":{"code":400,"message":"request (9031 tokens) exceeds the available context size (8192 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":9031,"n_ctx":8192}}"#,
            r#"{"error":{"message":"x","type":"invalid_request_error","code":"context_length_exceeded"}}"#,
            r#"{"error":{"message":"This model's maximum context length is 4096 tokens."}}"#,
        ] {
            assert_eq!(code(400, body), Code::ContextFull, "{body}");
        }
    }

    #[test]
    fn everything_else_is_an_error_of_the_server() {
        for (status, body) in [
            (
                400,
                r#"{"error":{"message":"bad schema","type":"invalid_request_error"}}"#,
            ),
            (401, ""),
            (301, "<html>"),
            (500, "{\"error\":\"x\"}"),
            (204, ""),
        ] {
            assert_eq!(code(status, body), Code::BackendError, "{status}");
        }
        let Refusal::Final(problem) = read_refusal(
            "a",
            StatusCode::BAD_REQUEST,
            None,
            br#"{"error":{"message":"bad schema"}}"#,
        ) else {
            panic!()
        };
        assert_eq!(problem.detail.unwrap(), "status 400: bad schema");
    }
}
