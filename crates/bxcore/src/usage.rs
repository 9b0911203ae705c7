//! What model calls used: tokens, money, and how much of a prompt was already in the cache.

use crate::money::MicroUsd;
use serde::{Deserialize, Serialize};

/// Where the figures of a call come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UsageSource {
    /// The server reported them.
    Reported,
    /// The server reported part; the rest is an upper bound.
    Estimated,
    /// The call's end was never seen, so its whole reservation is charged.
    Lost,
}

/// What one model call, or several together, used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// How many calls of a model.
    pub model_calls: u64,
    /// Tokens read, those from the cache included.
    pub prompt_tokens: u64,
    /// Tokens written.
    pub completion_tokens: u64,
    /// Tokens of the prompts that the server did not have to read again.
    pub cache_n: u64,
    /// How many of the tokens read nobody measured: they were charged for calls that broke off, at
    /// the most that these could have used.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub assumed_tokens: u64,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a field by reference"
)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Usage {
    /// Tokens that count against a limit.
    pub const fn tokens(&self) -> u64 {
        self.prompt_tokens.saturating_add(self.completion_tokens)
    }

    /// Both together.
    pub const fn plus(self, other: Self) -> Self {
        Self {
            model_calls: self.model_calls.saturating_add(other.model_calls),
            prompt_tokens: self.prompt_tokens.saturating_add(other.prompt_tokens),
            completion_tokens: self
                .completion_tokens
                .saturating_add(other.completion_tokens),
            cache_n: self.cache_n.saturating_add(other.cache_n),
            assumed_tokens: self.assumed_tokens.saturating_add(other.assumed_tokens),
        }
    }
}

/// Tokens and money together: what a limit bounds and a reservation holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Spend {
    /// Tokens read and written.
    pub tokens: u64,
    /// Money.
    pub usd: MicroUsd,
}

impl Spend {
    /// Both together.
    pub const fn plus(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_add(other.tokens),
            usd: self.usd.saturating_add(other.usd),
        }
    }

    /// What is left of this after `other`, held at nothing.
    pub const fn minus(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_sub(other.tokens),
            usd: self.usd.saturating_sub(other.usd),
        }
    }
}

/// What a tool call cost: a model elsewhere was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Charge {
    /// Money.
    pub usd: MicroUsd,
    /// What was used for it, as far as it was counted. These tokens are not the box's own and count
    /// against no limit on tokens.
    pub usage: Usage,
    /// Where the figures come from.
    pub source: UsageSource,
}

impl Charge {
    /// What a call costs that reached nobody.
    pub const NOTHING: Self = Self {
        usd: MicroUsd::ZERO,
        usage: Usage {
            model_calls: 0,
            prompt_tokens: 0,
            completion_tokens: 0,
            cache_n: 0,
            assumed_tokens: 0,
        },
        source: UsageSource::Reported,
    };

    /// What is charged for a call where nobody says what it cost: all that was set aside.
    pub fn whole(set_aside: MicroUsd) -> Self {
        Self {
            usd: set_aside,
            usage: Usage {
                model_calls: 1,
                ..Usage::default()
            },
            source: UsageSource::Lost,
        }
    }
}

/// What the inference proxy measured of one call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// The slot that served it, on a backend that has slots.
    pub slot: Option<u32>,
    /// Tokens read, those from the cache included.
    pub prompt_tokens: u64,
    /// Tokens written.
    pub completion_tokens: u64,
    /// Tokens of the prompt that came from the cache; none where the server doesn't say.
    pub cache_n: Option<u64>,
    /// Tokens of the prompt that were read anew; none where the server doesn't say.
    pub prompt_n: Option<u64>,
    /// Time spent waiting for the server to begin, in milliseconds.
    pub queue_ms: u64,
    /// Time spent reading the prompt, in milliseconds.
    pub prefill_ms: u64,
    /// Time spent writing the answer, in milliseconds.
    pub decode_ms: u64,
    /// Where the token counts come from.
    pub source: UsageSource,
    /// Whether another session used the slot since this one last did; loopd's slot gate knows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub taken_over: bool,
}

impl Receipt {
    /// The receipt as usage of one call.
    pub fn usage(&self) -> Usage {
        Usage {
            model_calls: 1,
            prompt_tokens: self.prompt_tokens,
            completion_tokens: self.completion_tokens,
            cache_n: self.cache_n.unwrap_or(0),
            assumed_tokens: 0,
        }
    }
}
