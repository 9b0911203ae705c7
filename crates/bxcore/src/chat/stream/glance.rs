//! One event of a model server, looked at without being taken apart. Pure.
//!
//! Just enough is read to tell a chat completion from anything else, and to find the figures.

use crate::chat::{PromptProgress, Timings, WireUsage};
use serde::Deserialize;
use serde_json::value::RawValue;

/// How much of something that can't be understood is told, in characters.
const MAX_SHOWN_CHARS: usize = 200;

/// What one line of a stream is.
#[derive(Debug)]
pub(super) enum Line<'a> {
    /// Nothing to look at: an empty line, a comment, an id.
    Nothing,
    /// A chunk of an answer.
    Chunk(Box<Chunk<'a>>),
    /// The end of the answer.
    Done,
}

/// What is read of a chunk.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Chunk<'a> {
    #[serde(borrow, default)]
    choices: Option<Vec<Choice<'a>>>,
    /// Token counts.
    #[serde(default)]
    pub(super) usage: Option<WireUsage>,
    /// Measurements of llama-server.
    #[serde(default)]
    pub(super) timings: Option<Timings>,
    /// How far the prompt was read.
    #[serde(default)]
    pub(super) prompt_progress: Option<PromptProgress>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Debug, Default, Deserialize)]
struct Choice<'a> {
    #[serde(borrow, default)]
    finish_reason: Option<&'a RawValue>,
    #[serde(borrow, default)]
    delta: Option<Delta<'a>>,
}

#[derive(Debug, Default, Deserialize)]
struct Delta<'a> {
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    reasoning_content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    reasoning: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tool_calls: Option<&'a RawValue>,
}

/// A line that no chat completion has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// It can't be understood.
    #[error("{0}")]
    Garbled(String),
    /// The server reports an error of its own, here as text.
    #[error("{0}")]
    Reported(String),
}

/// Reads one line, without its line end.
///
/// # Errors
/// It is not UTF-8, not JSON, not a chunk, has an event's name that is not the server's to give, or
/// carries an error.
pub(super) fn read_line(line: &[u8]) -> Result<Line<'_>, Fault> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if let Some(data) = line.strip_prefix(b"data:") {
        return read_data(data.strip_prefix(b" ").unwrap_or(data));
    }
    // An error's event is followed by its data, which tells more.
    let names_error = line
        .strip_prefix(b"event:")
        .is_some_and(|name| name.trim_ascii() == b"error");
    if line.is_empty()
        || names_error
        || [&b":"[..], b"id:", b"retry:"]
            .iter()
            .any(|start| line.starts_with(start))
    {
        return Ok(Line::Nothing);
    }
    if let Some(error) = line.strip_prefix(b"error:") {
        return Err(Fault::Reported(error_text(error.trim_ascii())));
    }
    Err(Fault::Garbled(format!(
        "a line that no answer has: {}",
        shown(line)
    )))
}

fn read_data(data: &[u8]) -> Result<Line<'_>, Fault> {
    if data == b"[DONE]" {
        return Ok(Line::Done);
    }
    let chunk: Chunk<'_> = serde_json::from_slice(data)
        .map_err(|error| Fault::Garbled(format!("{error}, in: {}", shown(data))))?;
    if let Some(error) = chunk.error {
        return Err(Fault::Reported(error_text(error.get().as_bytes())));
    }
    let told = chunk.usage.is_some() || chunk.timings.is_some() || chunk.prompt_progress.is_some();
    if chunk.choices.is_none() && !told {
        return Err(Fault::Garbled(format!(
            "a chunk without choices: {}",
            shown(data)
        )));
    }
    Ok(Line::Chunk(Box::new(chunk)))
}

impl Chunk<'_> {
    /// How many bytes of answer it carries, as JSON text: words, reasoning, tool calls.
    pub(super) fn answer_bytes(&self) -> usize {
        let Some(delta) = self.first().and_then(|choice| choice.delta.as_ref()) else {
            return 0;
        };
        let texts = [
            delta.content,
            delta.reasoning_content,
            delta.reasoning,
            delta.tool_calls,
        ];
        texts
            .into_iter()
            .flatten()
            .map(|text| text.get().len().saturating_sub(2))
            .sum()
    }

    /// Whether it says why the answer ended.
    pub(super) fn finishes(&self) -> bool {
        self.first()
            .is_some_and(|choice| choice.finish_reason.is_some())
    }

    fn first(&self) -> Option<&Choice<'_>> {
        self.choices.as_ref().and_then(|choices| choices.first())
    }
}

/// The message in an error object of any of the usual shapes, else its text.
pub fn error_text(json: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Outer {
        #[serde(default)]
        error: Option<serde_json::Value>,
        #[serde(default)]
        message: Option<String>,
        #[serde(default)]
        detail: Option<serde_json::Value>,
    }
    let told = serde_json::from_slice::<Outer>(json)
        .ok()
        .and_then(|outer| {
            let text = |value: serde_json::Value| match value {
                serde_json::Value::String(text) => Some(text),
                other => other
                    .get("message")
                    .and_then(|m| m.as_str())
                    .map(str::to_owned),
            };
            outer
                .message
                .or_else(|| outer.error.and_then(text))
                .or_else(|| outer.detail.and_then(text))
        });
    told.map_or_else(|| shown(json), |text| shown(text.as_bytes()))
}

fn shown(bytes: &[u8]) -> String {
    let most = bytes.len().min(4 * MAX_SHOWN_CHARS);
    let text = String::from_utf8_lossy(&bytes[..most]);
    let mut shown: String = text.trim().chars().take(MAX_SHOWN_CHARS).collect();
    if shown.len() < bytes.trim_ascii().len() {
        shown.push('…');
    }
    if shown.is_empty() {
        "nothing".to_owned()
    } else {
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(line: &str) -> Chunk<'_> {
        match read_line(line.as_bytes()) {
            Ok(Line::Chunk(chunk)) => *chunk,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn the_chunks_of_a_real_answer_are_told_apart() {
        let progress = chunk(
            r#"data: {"choices":[{"finish_reason":null,"index":0,"delta":{"role":"assistant","content":null}}],"prompt_progress":{"total":331,"cache":0,"processed":64,"time_ms":418}}"#,
        );
        assert_eq!(progress.prompt_progress.unwrap().processed, 64);
        assert_eq!((progress.answer_bytes(), progress.finishes()), (0, false));
        let text = chunk(
            r#"data: {"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":null}]}"#,
        );
        assert_eq!(text.answer_bytes(), 2);
        let end = chunk(r#"data: {"choices":[{"finish_reason":"stop","index":0,"delta":{}}]}"#);
        assert!(end.finishes());
        let usage = chunk(
            r#"data: {"choices":[],"usage":{"completion_tokens":8,"prompt_tokens":21},"timings":{"cache_n":0,"prompt_n":21}}"#,
        );
        assert_eq!(usage.usage.unwrap().prompt_tokens, 21);
        assert_eq!(usage.timings.unwrap().prompt_n, 21);
        assert!(matches!(read_line(b"data: [DONE]\r"), Ok(Line::Done)));
        for line in ["", "\r", ": ping", "id: 3", "retry: 5", "event: error"] {
            assert!(
                matches!(read_line(line.as_bytes()), Ok(Line::Nothing)),
                "{line}"
            );
        }
        // Both names of reasoning in one chunk, as some servers have it.
        assert_eq!(
            chunk(r#"data: {"choices":[{"delta":{"reasoning":"a","reasoning_content":"a"}}]}"#)
                .answer_bytes(),
            2
        );
    }

    #[test]
    fn what_is_no_completion_is_garbled() {
        for line in [
            &b"<html>"[..],
            b"data: x",
            b"data: {}",
            b"data: {\"choices\":[]}{\"choices\":[]}",
            b"data: {\"choices\":[{\"delta\":{\"content\":\"\xff\"}}]}",
            b"data: [1]",
            b"event: receipt",
            b"event: problem",
            b"event: waiting",
            b"\x00",
        ] {
            let found = read_line(line);
            assert!(
                matches!(found, Err(Fault::Garbled(_))),
                "{}: {found:?}",
                line.escape_ascii()
            );
        }
    }

    #[test]
    fn errors_of_the_server_are_passed_on_as_such() {
        for line in [
            r#"data: {"error":{"code":500,"message":"out of memory"}}"#,
            r#"data: {"error":"out of memory"}"#,
            r#"error: {"code":500,"message":"out of memory"}"#,
        ] {
            let Err(Fault::Reported(text)) = read_line(line.as_bytes()) else {
                panic!("{line}")
            };
            assert!(text.contains("out of memory"), "{text}");
        }
        assert_eq!(error_text(b"  "), "nothing");
        assert_eq!(
            error_text(&[b'x'; 4000]).chars().count(),
            MAX_SHOWN_CHARS + 1
        );
    }
}
