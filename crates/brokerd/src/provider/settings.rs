//! `[provider.NAME]` of `brokerd.toml`.

use crate::egress::{Endpoint, check_service};
use crate::secrets::SecretName;
use bxcore::chat::MAX_REPLY_TOKENS;
use bxcore::money::{MicroUsd, Price, Usd};
use bxcore::transcript::ToolMode;
use bxkit::config::InvalidValue;
use serde::Deserialize;
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// The least and the most of both times of silence, in milliseconds.
const SILENCE_MS: RangeInclusive<u64> = 1_000..=1_800_000;
/// The least and the most of `context_tokens`.
const CONTEXT_TOKENS: RangeInclusive<u64> = 1_024..=100_000_000;
/// The least of `answer_tokens`; a turn asks for no fewer.
const MIN_ANSWER_TOKENS: u32 = 64;
/// The most of `max_concurrency`.
const MAX_CONCURRENCY: u32 = 64;

/// A model elsewhere that may lead whole sessions, and at what price.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The whole address of an OpenAI-compatible chat completion: `https`, or this box.
    pub url: Endpoint,
    /// Certificates to check the other side's against, in place of the system's.
    #[serde(default)]
    pub ca_file: Option<PathBuf>,
    /// The model.
    pub model: String,
    /// The name of the secret that is sent as bearer token.
    pub secret: SecretName,
    /// What a million tokens cost.
    price: PerMillion,
    /// The most of one day (UTC), over all sessions.
    pub daily_usd: Usd,
    /// How many tokens one conversation may have.
    pub context_tokens: u64,
    /// The most tokens of one answer.
    #[serde(default = "default_answer_tokens")]
    pub answer_tokens: u32,
    /// How long the first of an answer may take, from the look-up of the name on, in milliseconds.
    #[serde(default = "default_first_byte_ms")]
    pub first_byte_ms: u64,
    /// How long the provider may be silent in the middle of an answer, in milliseconds.
    #[serde(default = "default_between_ms")]
    pub between_ms: u64,
    /// How the model calls tools.
    #[serde(default = "default_mode")]
    pub mode: ToolMode,
    /// How many calls are made at once; others wait.
    #[serde(default = "default_concurrency")]
    pub max_concurrency: u32,
}

/// Dollars for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct PerMillion {
    prompt: Usd,
    completion: Usd,
    #[serde(default)]
    cached_prompt: Option<Usd>,
}

const fn default_answer_tokens() -> u32 {
    4_096
}

const fn default_first_byte_ms() -> u64 {
    120_000
}

const fn default_between_ms() -> u64 {
    60_000
}

const fn default_mode() -> ToolMode {
    ToolMode::Native
}

const fn default_concurrency() -> u32 {
    4
}

impl Settings {
    /// What the types can't say.
    ///
    /// # Errors
    /// The key whose value can't be used.
    pub fn check(&self, name: &str) -> Result<(), InvalidValue> {
        let wrong =
            |key: &str, why: String| Err(InvalidValue::new(format!("provider.{name}.{key}"), why));
        for (key, ms) in [
            ("first_byte_ms", self.first_byte_ms),
            ("between_ms", self.between_ms),
        ] {
            if !SILENCE_MS.contains(&ms) {
                return wrong(key, outside(ms, &SILENCE_MS));
            }
        }
        if !CONTEXT_TOKENS.contains(&self.context_tokens) {
            return wrong(
                "context_tokens",
                outside(self.context_tokens, &CONTEXT_TOKENS),
            );
        }
        let most = MAX_REPLY_TOKENS.min(self.context_tokens);
        let answer_tokens = u64::from(MIN_ANSWER_TOKENS)..=most;
        if !answer_tokens.contains(&u64::from(self.answer_tokens)) {
            return wrong(
                "answer_tokens",
                outside(self.answer_tokens.into(), &answer_tokens),
            );
        }
        if !(1..=MAX_CONCURRENCY).contains(&self.max_concurrency) {
            let concurrency = 1..=u64::from(MAX_CONCURRENCY);
            return wrong(
                "max_concurrency",
                outside(self.max_concurrency.into(), &concurrency),
            );
        }
        if self.daily_usd.0.is_zero() && self.costs() {
            let why = "nothing could ever be asked".to_owned();
            return wrong("daily_usd", why)
                .map_err(|error| error.hint("write what one day may cost, such as \"5\""));
        }
        let table = format!("provider.{name}");
        check_service(&table, &self.url, &self.model, self.ca_file.as_deref())
    }

    /// What tokens cost.
    pub fn price(&self) -> Price {
        Price {
            prompt: self.price.prompt.0,
            completion: self.price.completion.0,
            cached_prompt: self.price.cached_prompt.map(|price| price.0),
        }
    }

    fn costs(&self) -> bool {
        self.price().cost(1_000_000, 1_000_000) > MicroUsd::ZERO
    }
}

fn outside(value: u64, range: &RangeInclusive<u64>) -> String {
    format!(
        "{value} is not between {} and {}",
        range.start(),
        range.end()
    )
}
