//! The bytes of answers that are no completions. Pure, as `plan` is.

use serde_json::{Value, json};

use super::chunks;
use super::plan::{DONE, Job, Plan, Step, sent};
use super::reply::Garbage;

const HUGE_DELTA_BYTES: usize = 10 * 1024 * 1024;
const ENDLESS_PIECE_BYTES: usize = 16 * 1024;

/// The bytes of an answer that is no completion.
pub(super) fn spoil(plan: &mut Plan, garbage: Garbage, job: &Job) {
    let content = |text: &str| {
        let body = if job.stream {
            Value::Object(job.envelope.delta(&json!({"content": text})))
        } else {
            job.envelope.whole(
                &json!({"role": "assistant", "content": text}),
                "stop",
                &plan.figures,
            )
        };
        body.to_string().into_bytes()
    };
    let one = |document: Vec<u8>| framed(&[document], job.stream);
    let (bytes, after) = match garbage {
        Garbage::NotJson => (one(b"I am not JSON".to_vec()), Step::Settle),
        Garbage::InvalidUtf8 => (
            one(replace(content("@@"), b"@@", b"\xff\xfe")),
            Step::Settle,
        ),
        Garbage::TwoDocuments => (one([content("one"), content("two")].concat()), Step::Settle),
        Garbage::HugeDelta => (one(content(&"a".repeat(HUGE_DELTA_BYTES))), Step::Settle),
        Garbage::NoChoices => (one(b"{\"id\":\"chatcmpl-x\"}".to_vec()), Step::Settle),
        Garbage::GzipHeader => {
            plan.headers
                .push(("content-encoding".to_owned(), "gzip".to_owned()));
            (one(content("plain")), Step::Settle)
        }
        Garbage::Html => {
            plan.headers
                .push(("content-type".to_owned(), "text/html".to_owned()));
            (
                b"<html><body><h1>502 Bad Gateway</h1></body></html>".to_vec(),
                Step::Settle,
            )
        }
        Garbage::ErrorInStream => {
            let error = chunks::error(500, "server_error", "scripted failure").to_string();
            let first = content("begun");
            (
                framed(&[first, error.into_bytes()], job.stream),
                Step::Settle,
            )
        }
        Garbage::Endless if job.stream => {
            let piece = one(content(&"a".repeat(ENDLESS_PIECE_BYTES)));
            (Vec::new(), Step::Forever(piece.into()))
        }
        Garbage::Endless | Garbage::EndlessLine => {
            let start = String::from_utf8_lossy(&content("@@")).into_owned();
            let start = start.split("@@").next().unwrap_or("").as_bytes().to_vec();
            let start = if job.stream {
                [b"data: ".to_vec(), start].concat()
            } else {
                start
            };
            (start, Step::Forever("a".repeat(ENDLESS_PIECE_BYTES).into()))
        }
    };
    match after {
        Step::Forever(_) => plan.steps.extend([sent(bytes, 0), after]),
        _ => plan.steps.extend([after, sent(bytes, 0)]),
    }
    if job.stream
        && matches!(
            garbage,
            Garbage::NotJson | Garbage::NoChoices | Garbage::HugeDelta
        )
    {
        plan.steps.push(sent(DONE, 0));
    }
}

fn framed(documents: &[Vec<u8>], stream: bool) -> Vec<u8> {
    if !stream {
        return documents.concat();
    }
    documents
        .iter()
        .flat_map(|document| [b"data: ", &document[..], b"\n\n"].concat())
        .collect()
}

fn replace(text: Vec<u8>, from: &[u8], to: &[u8]) -> Vec<u8> {
    match text.windows(from.len()).position(|window| window == from) {
        Some(at) => [&text[..at], to, &text[at + from.len()..]].concat(),
        None => text,
    }
}
