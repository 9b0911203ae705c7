//! The JSON shapes of llama-server's answers, as recorded from a real one.

use serde_json::{Map, Value, json};

use super::journal::Figures;

/// What every chunk and answer of one request repeats.
#[derive(Debug, Clone)]
pub(super) struct Envelope {
    pub(super) id: String,
    pub(super) model: String,
    pub(super) created: u64,
    pub(super) llama: bool,
    pub(super) usage_details: bool,
}

const FINGERPRINT: &str = "b0-scripted";

impl Envelope {
    /// One chunk with a delta.
    pub(super) fn delta(&self, delta: &Value) -> Map<String, Value> {
        self.chunk(&json!([{"finish_reason": null, "index": 0, "delta": delta}]))
    }

    /// The chunk that says why the completion ended.
    pub(super) fn finish(&self, reason: &str) -> Map<String, Value> {
        self.chunk(&json!([{"finish_reason": reason, "index": 0, "delta": {}}]))
    }

    /// The chunk with the usage, which has no choices.
    pub(super) fn usage(&self, figures: &Figures) -> Map<String, Value> {
        let mut chunk = self.chunk(&json!([]));
        chunk.insert("usage".to_owned(), self.usage_body(figures));
        chunk
    }

    fn chunk(&self, choices: &Value) -> Map<String, Value> {
        let mut body = Map::new();
        body.insert("choices".to_owned(), choices.clone());
        body.insert("created".to_owned(), self.created.into());
        body.insert("id".to_owned(), self.id.as_str().into());
        body.insert("model".to_owned(), self.model.as_str().into());
        if self.llama {
            body.insert("system_fingerprint".to_owned(), FINGERPRINT.into());
        }
        body.insert("object".to_owned(), "chat.completion.chunk".into());
        body
    }

    /// The answer of a request without a stream.
    pub(super) fn whole(&self, message: &Value, reason: &str, figures: &Figures) -> Value {
        let mut body = json!({
            "choices": [{"finish_reason": reason, "index": 0, "message": message}],
            "created": self.created,
            "model": self.model,
            "object": "chat.completion",
            "usage": self.usage_body(figures),
            "id": self.id,
        });
        if self.llama {
            body["system_fingerprint"] = FINGERPRINT.into();
            body["timings"] = timings(figures);
        }
        body
    }

    fn usage_body(&self, figures: &Figures) -> Value {
        let mut usage = json!({
            "completion_tokens": figures.predicted_n,
            "prompt_tokens": figures.cache_n + figures.prompt_n,
            "total_tokens": figures.cache_n + figures.prompt_n + figures.predicted_n,
        });
        if self.usage_details {
            usage["prompt_tokens_details"] = json!({"cached_tokens": figures.cache_n});
        }
        usage
    }
}

/// llama-server's own figures of one request.
#[expect(
    clippy::cast_precision_loss,
    reason = "token counts and milliseconds are small"
)]
pub(super) fn timings(figures: &Figures) -> Value {
    let rate = |count: usize, ms: f64| {
        if ms > 0.0 {
            count as f64 * 1e3 / ms
        } else {
            0.0
        }
    };
    let each = |count: usize, ms: f64| if count > 0 { ms / count as f64 } else { 0.0 };
    json!({
        "cache_n": figures.cache_n,
        "prompt_n": figures.prompt_n,
        "prompt_ms": figures.prompt_ms,
        "prompt_per_token_ms": each(figures.prompt_n, figures.prompt_ms),
        "prompt_per_second": rate(figures.prompt_n, figures.prompt_ms),
        "predicted_n": figures.predicted_n,
        "predicted_ms": figures.predicted_ms,
        "predicted_per_token_ms": each(figures.predicted_n, figures.predicted_ms),
        "predicted_per_second": rate(figures.predicted_n, figures.predicted_ms),
    })
}

/// How far the prompt has been read.
pub(super) fn progress(total: usize, cache: usize, processed: usize, time_ms: u64) -> Value {
    json!({"total": total, "cache": cache, "processed": processed, "time_ms": time_ms})
}

/// An error body.
pub(super) fn error(status: u16, kind: &str, message: &str) -> Value {
    json!({"error": {"code": status, "message": message, "type": kind}})
}

/// The error body of a prompt that doesn't fit.
pub(super) fn context_exceeded(prompt_tokens: usize, context_tokens: usize) -> Value {
    let message = format!(
        "request ({prompt_tokens} tokens) exceeds the available context size \
         ({context_tokens} tokens), try increasing it"
    );
    let mut body = error(400, "exceed_context_size_error", &message);
    body["error"]["n_prompt_tokens"] = prompt_tokens.into();
    body["error"]["n_ctx"] = context_tokens.into();
    body
}

/// One event of the stream.
pub(super) fn event(body: &Value) -> Vec<u8> {
    format!("data: {body}\n\n").into_bytes()
}
