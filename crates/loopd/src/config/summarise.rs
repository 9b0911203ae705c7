//! `[summarise]`: summaries of long results of tools.

use bxkit::config::InvalidValue;
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;

/// The least and the most bytes of a result that is read for its summary.
const READ_BYTES: RangeInclusive<u32> = 2_048..=1_048_576;

/// Whether a result that is longer than `tool_result_bytes` is summed up. Off by default: each such
/// result costs a model call, which waits behind everything else on the background slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Summarise {
    /// Whether it is.
    pub results: bool,
    /// How much of such a result is read for its summary, in bytes.
    pub read_bytes: u32,
}

impl Default for Summarise {
    fn default() -> Self {
        Self {
            results: false,
            read_bytes: 65_536,
        }
    }
}

impl Summarise {
    pub(super) fn check(self) -> Result<(), InvalidValue> {
        if READ_BYTES.contains(&self.read_bytes) {
            return Ok(());
        }
        let (least, most) = (READ_BYTES.start(), READ_BYTES.end());
        let why = format!("must be from {least} to {most} bytes");
        Err(InvalidValue::new("summarise.read_bytes", why))
    }
}
