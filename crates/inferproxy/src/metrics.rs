//! What is counted of each call. Names follow OpenTelemetry's conventions for generative AI where
//! they have one; sessions are never a label, since there is no end of them.

use bxcore::usage::Receipt;
use bxcore::wire::inferproxy::Lane;
use std::time::Duration;

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// With a whole answer.
    Complete,
    /// It was stopped.
    Stopped,
    /// Its caller went away.
    Gone,
    /// It failed, with this runbook code.
    Failed(bxcore::code::Code),
}

impl Outcome {
    fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Stopped => "stopped",
            Self::Gone => "caller-gone",
            Self::Failed(code) => code.as_str(),
        }
    }
}

/// A call, as metrics see it.
#[derive(Debug, Clone)]
pub struct CallLabels {
    /// The backend.
    pub backend: String,
    /// The model.
    pub model: String,
    /// What the slot was used for.
    pub lane: Lane,
}

/// Counts a call that has begun.
pub fn call_began(labels: &CallLabels) {
    active(labels).increment(1.0);
}

/// Counts a call that has ended, after so long.
pub fn call_ended(labels: &CallLabels, outcome: Outcome, took: Duration) {
    active(labels).decrement(1.0);
    metrics::counter!(
        "boxmaker_inference_calls_total",
        "backend" => labels.backend.clone(),
        "lane" => labels.lane.name(),
        "outcome" => outcome.name(),
    )
    .increment(1);
    metrics::histogram!(
        "gen_ai_client_operation_duration_seconds",
        "gen_ai_operation_name" => "chat",
        "gen_ai_request_model" => labels.model.clone(),
        "backend" => labels.backend.clone(),
    )
    .record(took.as_secs_f64());
}

/// Counts what a complete call used.
pub fn call_measured(labels: &CallLabels, receipt: &Receipt, first_word: Option<Duration>) {
    let tokens = |kind: &'static str, count: u64| {
        metrics::counter!(
            "gen_ai_client_token_usage_total",
            "gen_ai_token_type" => kind,
            "gen_ai_request_model" => labels.model.clone(),
            "backend" => labels.backend.clone(),
        )
        .increment(count);
    };
    tokens("input", receipt.prompt_tokens);
    tokens("input_cached", receipt.cache_n.unwrap_or(0));
    tokens("output", receipt.completion_tokens);
    let time = |name: &'static str, seconds: f64| {
        metrics::histogram!(name, "backend" => labels.backend.clone(), "lane" => labels.lane.name())
            .record(seconds);
    };
    let seconds = |ms: u64| Duration::from_millis(ms).as_secs_f64();
    time(
        "boxmaker_inference_queue_seconds",
        seconds(receipt.queue_ms),
    );
    time(
        "boxmaker_inference_prefill_seconds",
        seconds(receipt.prefill_ms),
    );
    time(
        "boxmaker_inference_decode_seconds",
        seconds(receipt.decode_ms),
    );
    if let Some(first_word) = first_word {
        time(
            "gen_ai_server_time_to_first_token_seconds",
            first_word.as_secs_f64(),
        );
    }
    if let Ok(count) = u32::try_from(receipt.completion_tokens)
        && count > 1
    {
        let each = seconds(receipt.decode_ms) / f64::from(count - 1);
        time("gen_ai_server_time_per_output_token_seconds", each);
    }
}

fn active(labels: &CallLabels) -> metrics::Gauge {
    metrics::gauge!("boxmaker_inference_active_calls", "backend" => labels.backend.clone())
}
