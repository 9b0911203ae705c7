//! `consult`: one question to a model elsewhere, one answer back, and nothing else either way.

mod answer;
mod body;
mod failure;
mod settings;

pub use answer::read;
pub use body::{ARGUMENT, body};
pub use failure::ConsultFailure;
pub use settings::{ConsultError, MAX_TIMEOUT_MS, Settings};

use crate::egress::{Bounds, Client, reach};
use crate::secrets::{SecretName, Secrets};
use crate::tools::Output;
use bxcore::label::Label;
use bxcore::usage::{Charge, Usage, UsageSource};
use bxkit::fault;
use bytes::Bytes;
use serde_json::{Value, json};
use std::sync::Arc;

/// The tool's name.
pub const CONSULT: &str = "consult";
/// What a model reads of it.
pub const DESCRIPTION: &str = "Asks a more capable model outside of this machine one question and \
    returns its answer. It sees nothing but the question: no history, no files, no memory. Put \
    everything it needs into the question, and nothing private that it does not need.";
/// The longest answer that is read, in bytes.
const MAX_ANSWER_BYTES: usize = 4 * 1024 * 1024;

/// The schema of its arguments.
pub fn parameters() -> Value {
    json!({
        "type": "object",
        "properties": {
            ARGUMENT: {"type": "string", "minLength": 1, "description": "The whole question."}
        },
        "required": [ARGUMENT],
        "additionalProperties": false
    })
}

/// Everything that a consultation needs. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Consult {
    settings: Arc<Settings>,
    client: Client,
    secrets: Secrets,
}

impl Consult {
    /// Makes it ready: certificates are read now, since later there is no right to.
    ///
    /// # Errors
    /// There are no certificates to check the other side's against.
    pub fn new(settings: Settings, secrets: Secrets) -> Result<Self, ConsultError> {
        Ok(Self {
            client: reach(&settings.url, settings.ca_file.as_deref())?,
            settings: Arc::new(settings),
            secrets,
        })
    }

    /// What the owner configured.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The secret that it needs.
    pub fn secret(&self) -> &SecretName {
        &self.settings.secret
    }

    /// Sends a body that is on record, and reads the answer. One request at the most.
    pub async fn ask(&self, body: Bytes) -> Output {
        let Some(secret) = self.secrets.get(&self.settings.secret) else {
            return self.failed(&ConsultFailure::NoSecret);
        };
        let body_bytes = body.len();
        let bounds = Bounds {
            timeout_ms: self.settings.timeout_ms,
            max_bytes: MAX_ANSWER_BYTES,
        };
        fault::point("brokerd.before-send");
        let replied = self
            .client
            .post_json(Some(secret.expose()), body, bounds)
            .await;
        fault::point("brokerd.after-send");
        let answered = replied
            .map_err(ConsultFailure::from)
            .and_then(|reply| read(&reply, body_bytes));
        match answered {
            Ok(answered) => Output {
                charge: Some(match answered.tokens {
                    Some((prompt, completion)) => Charge {
                        usd: self.settings.price().cost(prompt, completion),
                        usage: usage(prompt, completion),
                        source: UsageSource::Reported,
                    },
                    None => Charge::whole(self.settings.reserve_usd.0),
                }),
                // What it carries besides is the grant's to say.
                ..Output::ok(answered.text, Label::BOTTOM)
            },
            Err(failure) => self.failed(&failure),
        }
    }

    /// What becomes of a question that was not asked, since too many requests are under way.
    pub fn busy(&self) -> Output {
        self.failed(&ConsultFailure::Busy)
    }

    fn failed(&self, failure: &ConsultFailure) -> Output {
        let (class, cause) = (failure.class(), failure.cause());
        tracing::warn!(class, cause, "a question got no answer: {failure}");
        metrics::counter!("boxmaker_consult_failures_total", "class" => failure.class())
            .increment(1);
        Output {
            failure: Some(bxcore::code::Code::ConsultFailed),
            charge: Some(if failure.may_have_cost() {
                Charge::whole(self.settings.reserve_usd.0)
            } else {
                Charge::NOTHING
            }),
            ..Output::ok(failure.told(), Label::BOTTOM)
        }
    }
}

fn usage(prompt_tokens: u64, completion_tokens: u64) -> Usage {
    Usage {
        model_calls: 1,
        prompt_tokens,
        completion_tokens,
        ..Usage::default()
    }
}
