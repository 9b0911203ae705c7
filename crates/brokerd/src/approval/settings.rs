//! `[approvals]` of `brokerd.toml`.

use super::webhook::WebhookSettings;
use bxkit::config::InvalidValue;
use jiff::SignedDuration;
use serde::Deserialize;

/// The least and the most of `expire_minutes`; the most is what the design gives an approval.
const EXPIRE_MINUTES: std::ops::RangeInclusive<u32> = 1..=60;

/// Whether and how long the owner is asked.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Whether there is anybody to ask; if not, calls that need approval are denied at once.
    pub ask: bool,
    /// How long a question waits for its answer, and an answer for its call, in minutes.
    pub expire_minutes: u32,
    /// Where the owner is told that a call waits; nowhere if left out.
    pub webhook: Option<WebhookSettings>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            ask: true,
            expire_minutes: *EXPIRE_MINUTES.end(),
            webhook: None,
        }
    }
}

impl Settings {
    /// What the types can't say.
    ///
    /// # Errors
    /// The key whose value can't be used.
    pub fn check(&self) -> Result<(), InvalidValue> {
        if let Some(webhook) = &self.webhook {
            webhook.check()?;
        }
        if EXPIRE_MINUTES.contains(&self.expire_minutes) {
            return Ok(());
        }
        let (least, most) = (EXPIRE_MINUTES.start(), EXPIRE_MINUTES.end());
        let why = format!("{} is not between {least} and {most}", self.expire_minutes);
        Err(InvalidValue::new("approvals.expire_minutes", why)
            .hint("to ask nobody, set `ask` to false"))
    }

    /// How long a question waits.
    pub fn expires_in(&self) -> SignedDuration {
        SignedDuration::from_mins(i64::from(self.expire_minutes))
    }
}
