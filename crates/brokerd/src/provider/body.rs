//! The body of a model call as the decision reads it. Pure; the body itself is never written anew.

use super::Settings;
use crate::decision::Arguments;
use bxcore::chat::{Expected, check_body};
use bxcore::json::parse_strict;
use bxcore::money::MicroUsd;
use bxcore::wire::inferproxy::BackendKind;
use serde_json::Value;

/// What a body says, if every field of it may be sent to a stranger.
pub fn arguments(settings: &Settings, body: &str) -> Arguments {
    let expected = Expected {
        kind: BackendKind::Openai,
        slot: None,
        model: &settings.model,
    };
    if let Err(problem) = check_body(body.as_bytes(), &expected) {
        return Arguments::Invalid(problem.detail.unwrap_or(problem.title));
    }
    match parse_strict(body) {
        Ok(value) => match answer_tokens(&value) {
            tokens if tokens > u64::from(settings.answer_tokens) => Arguments::Invalid(format!(
                "it asks for {tokens} tokens, and `answer_tokens` is {}",
                settings.answer_tokens
            )),
            _ => Arguments::Valid(value),
        },
        Err(error) => Arguments::Invalid(error.to_string()),
    }
}

/// The least that must be set aside for a body: what its longest answer costs.
pub(crate) fn least_reserve(settings: &Settings, body: &Value) -> MicroUsd {
    settings.price().cost(0, answer_tokens(body))
}

fn answer_tokens(body: &Value) -> u64 {
    let bounds = ["max_tokens", "max_completion_tokens"];
    let bounds = bounds
        .into_iter()
        .filter_map(|name| body.get(name)?.as_u64());
    bounds.max().unwrap_or(u64::MAX)
}
