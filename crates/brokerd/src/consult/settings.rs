//! `[consult]` of `brokerd.toml`.

use crate::egress::{Endpoint, RootsError, check_service};
use crate::secrets::{SecretError, SecretName};
use bxcore::code::Code;
use bxcore::money::{Price, Usd};
use bxcore::problem::Problem;
use bxkit::config::InvalidValue;
use serde::Deserialize;
use std::path::PathBuf;

/// The most of `timeout_ms`. loopd waits longer for any tool.
pub const MAX_TIMEOUT_MS: u64 = 600_000;
/// The least and the most of `timeout_ms`.
const TIMEOUT_MS: std::ops::RangeInclusive<u64> = 1_000..=MAX_TIMEOUT_MS;
/// The most of `temperature`, and what it is if left out.
const MAX_TEMPERATURE: f64 = 0.6;

/// Whom to ask, and at what price.
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
    /// How free the model is, at most 0.6.
    #[serde(default = "default_temperature")]
    pub temperature: f64,
    /// How long the whole exchange may take, in milliseconds.
    #[serde(default = "default_timeout_ms")]
    pub timeout_ms: u64,
    /// The name of the secret that is sent as bearer token.
    pub secret: SecretName,
    /// What a million tokens cost.
    price: PerMillion,
    /// What is set aside for one question: the request itself has no limit on its answer.
    pub reserve_usd: Usd,
    /// The most of one day (UTC), over all sessions.
    pub daily_usd: Usd,
}

/// Dollars for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct PerMillion {
    prompt: Usd,
    completion: Usd,
}

const fn default_temperature() -> f64 {
    MAX_TEMPERATURE
}

const fn default_timeout_ms() -> u64 {
    180_000
}

impl Settings {
    /// What the types can't say.
    ///
    /// # Errors
    /// The key whose value can't be used.
    pub fn check(&self) -> Result<(), InvalidValue> {
        let wrong = |key: &str, why: String| InvalidValue::new(format!("consult.{key}"), why);
        if !(0.0..=MAX_TEMPERATURE).contains(&self.temperature) {
            let why = format!(
                "{} is not between 0 and {MAX_TEMPERATURE}",
                self.temperature
            );
            return Err(wrong("temperature", why));
        }
        if !TIMEOUT_MS.contains(&self.timeout_ms) {
            let (least, most) = (TIMEOUT_MS.start(), TIMEOUT_MS.end());
            let why = format!("{} is not between {least} and {most}", self.timeout_ms);
            return Err(wrong("timeout_ms", why));
        }
        if self.reserve_usd.0.micros() == 0 {
            let why = "nothing would be set aside for a question".to_owned();
            let hint = "write what one question may cost, such as \"0.50\"";
            return Err(wrong("reserve_usd", why).hint(hint));
        }
        if self.daily_usd < self.reserve_usd {
            let why = "it is less than `reserve_usd`, so nothing could ever be asked".to_owned();
            return Err(wrong("daily_usd", why));
        }
        check_service("consult", &self.url, &self.model, self.ca_file.as_deref())
    }

    /// What tokens cost.
    pub fn price(&self) -> Price {
        Price {
            prompt: self.price.prompt.0,
            completion: self.price.completion.0,
            cached_prompt: None,
        }
    }
}

/// Why brokerd can't start with its `[consult]`.
#[derive(Debug, thiserror::Error)]
pub enum ConsultError {
    /// The secret can't be used.
    #[error("the secret of `[consult]` can't be used")]
    Secret(#[source] SecretError),
    /// There are no certificates.
    #[error(transparent)]
    Roots(#[from] RootsError),
}

impl From<ConsultError> for Problem {
    fn from(error: ConsultError) -> Self {
        let detail = bxkit::report::chain(&error);
        match error {
            ConsultError::Secret(source) => Self::new(
                Code::ConsultSecretUnreadable,
                "The secret that `[consult]` names can't be used",
            )
            .detail(detail)
            .hint(source.hint()),
            ConsultError::Roots(_) => Self::new(
                Code::ConfigInvalid,
                "No certificate of `[consult]` could be checked",
            )
            .detail(detail)
            .hint("name a `ca_file`, or install the system's certificates"),
        }
    }
}
