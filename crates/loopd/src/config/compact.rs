//! `[compact]`: how long a summary may be.

use serde::{Deserialize, Serialize};

/// Sizes of summaries and of what a helper hands back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Compact {
    /// The most characters of a summary, and of a helper's answer to whoever asked it.
    pub summary_chars: u32,
}

impl Default for Compact {
    fn default() -> Self {
        Self {
            summary_chars: 4_000,
        }
    }
}
