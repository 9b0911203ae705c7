//! `[sampling]`: how the model picks its words. Part of an epoch's fixed members.

use bxkit::config::InvalidValue;
use serde::{Deserialize, Serialize};

/// Sampling parameters that go to the model server with every request of an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sampling {
    /// From 0 (always the likeliest word) to 2.
    pub temperature: f64,
    /// A number that makes runs repeatable on servers that honour it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u32>,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            temperature: 0.2,
            seed: None,
        }
    }
}

impl Sampling {
    pub(super) fn check(&self) -> Result<(), InvalidValue> {
        if (0.0..=2.0).contains(&self.temperature) {
            return Ok(());
        }
        Err(InvalidValue::new(
            "sampling.temperature",
            "must be from 0 to 2",
        ))
    }
}
