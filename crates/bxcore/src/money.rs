//! Money in whole micro-dollars and prices per million tokens. No floating point comes near it.

use crate::usage::Usage;
use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::iter::Sum;
use std::ops::Add;

/// Micro-dollars in a dollar.
pub const MICROS_PER_USD: i64 = 1_000_000;

/// An amount of money, in micro-dollars; never negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize)]
#[serde(transparent)]
pub struct MicroUsd(i64);

/// A text that is no amount of dollars.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAmount {
    /// Below zero.
    #[error("an amount of money can't be negative")]
    Negative,
    /// Not digits with at most six places.
    #[error("`{0}` is not an amount of dollars with at most six places, such as 0.50")]
    NotADecimal(String),
}

impl MicroUsd {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// More than anyone has.
    pub const MAX: Self = Self(i64::MAX);

    /// Whether it is nothing.
    pub const fn is_zero(&self) -> bool {
        self.0 == 0
    }

    /// An amount from its count of micro-dollars.
    pub const fn from_micros(micros: i64) -> Result<Self, InvalidAmount> {
        if micros < 0 {
            Err(InvalidAmount::Negative)
        } else {
            Ok(Self(micros))
        }
    }

    /// The amount as a count of micro-dollars.
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// The sum, held at the largest amount rather than wrapped.
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The difference, held at nothing.
    pub const fn saturating_sub(self, other: Self) -> Self {
        let left = self.0 - other.0;
        Self(if left < 0 { 0 } else { left })
    }

    /// Reads dollars such as `0.5` or `12`, with at most six places.
    pub fn parse_dollars(text: &str) -> Result<Self, InvalidAmount> {
        let bad = || InvalidAmount::NotADecimal(text.chars().take(40).collect());
        let (whole, places) = text.split_once('.').unwrap_or((text, ""));
        let digits = |t: &str| t.bytes().all(|b| b.is_ascii_digit());
        if whole.is_empty() || places.len() > 6 || !digits(whole) || !digits(places) {
            return Err(bad());
        }
        let whole: i64 = whole.parse().map_err(|_| bad())?;
        let micros: i64 = format!("{places:0<6}").parse().map_err(|_| bad())?;
        whole
            .checked_mul(MICROS_PER_USD)
            .and_then(|dollars| dollars.checked_add(micros))
            .map(Self)
            .ok_or_else(bad)
    }
}

impl Add for MicroUsd {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        self.saturating_add(other)
    }
}

impl Sum for MicroUsd {
    fn sum<I: Iterator<Item = Self>>(items: I) -> Self {
        items.fold(Self::ZERO, Self::saturating_add)
    }
}

impl fmt::Display for MicroUsd {
    /// Dollars with six places, as every machine-readable output has them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}.{:06}",
            self.0 / MICROS_PER_USD,
            self.0 % MICROS_PER_USD
        )
    }
}

impl<'de> Deserialize<'de> for MicroUsd {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let micros = i64::deserialize(deserializer)?;
        Self::from_micros(micros).map_err(serde::de::Error::custom)
    }
}

/// Dollars as a configuration writes them: as text, so that no floating point comes near money.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Usd(pub MicroUsd);

impl<'de> Deserialize<'de> for Usd {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Dollars).map(Self)
    }
}

/// Reads dollars, and tells whoever wrote a number how to write it.
struct Dollars;

impl Visitor<'_> for Dollars {
    type Value = MicroUsd;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an amount of dollars in quotes, such as \"0.50\"")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<MicroUsd, E> {
        MicroUsd::parse_dollars(text).map_err(E::custom)
    }
}

impl Serialize for Usd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// What a model's tokens cost, in micro-dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// For a million tokens read.
    pub prompt: MicroUsd,
    /// For a million tokens written.
    pub completion: MicroUsd,
    /// For a million tokens read that were in the server's cache; none where these cost the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_prompt: Option<MicroUsd>,
}

impl Price {
    /// A model on the owner's own box costs nothing but its tokens.
    pub const FREE: Self = Self {
        prompt: MicroUsd::ZERO,
        completion: MicroUsd::ZERO,
        cached_prompt: None,
    };

    /// The cost of one call whose prompt is read anew, rounded up to a whole micro-dollar.
    pub fn cost(self, prompt_tokens: u64, completion_tokens: u64) -> MicroUsd {
        self.cost_of(&Usage {
            prompt_tokens,
            completion_tokens,
            ..Usage::default()
        })
    }

    /// The cost of what was used, rounded up to a whole micro-dollar.
    pub fn cost_of(self, usage: &Usage) -> MicroUsd {
        let part = |price: MicroUsd, tokens: u64| i128::from(price.0) * i128::from(tokens);
        // No more can have been in the cache than was read.
        let cached = usage.cache_n.min(usage.prompt_tokens);
        let sum = part(self.prompt, usage.prompt_tokens - cached)
            .saturating_add(part(self.cached_prompt.unwrap_or(self.prompt), cached))
            .saturating_add(part(self.completion, usage.completion_tokens));
        let micros = sum.saturating_add(999_999) / 1_000_000;
        MicroUsd(i64::try_from(micros).unwrap_or(i64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollars_are_read_and_written_exactly() {
        for (text, micros) in [("0", 0), ("0.5", 500_000), ("12.000001", 12_000_001)] {
            assert_eq!(MicroUsd::parse_dollars(text).unwrap().micros(), micros);
        }
        for bad in ["", ".5", "-1", "1.0000001", "1e3", "99999999999999999999"] {
            assert!(MicroUsd::parse_dollars(bad).is_err(), "{bad}");
        }
        assert_eq!(MicroUsd(1_500_000).to_string(), "1.500000");
    }

    #[test]
    fn a_cost_is_rounded_up_and_never_wraps() {
        let price = Price {
            prompt: MicroUsd(1),
            completion: MicroUsd(3),
            cached_prompt: None,
        };
        assert_eq!(price.cost(1, 0), MicroUsd(1));
        assert_eq!(price.cost(1_000_000, 1_000_000), MicroUsd(4));
        let dear = Price {
            prompt: MicroUsd::MAX,
            completion: MicroUsd::MAX,
            cached_prompt: None,
        };
        assert_eq!(dear.cost(u64::MAX, u64::MAX), MicroUsd::MAX);
    }

    #[test]
    fn what_was_in_the_cache_has_a_price_of_its_own() {
        let price = |cached_prompt| Price {
            prompt: MicroUsd(3_000_000),
            completion: MicroUsd(15_000_000),
            cached_prompt,
        };
        let usage = |cache_n| Usage {
            prompt_tokens: 100,
            completion_tokens: 10,
            cache_n,
            ..Usage::default()
        };
        let cheap = Some(MicroUsd(300_000));
        assert_eq!(price(None).cost_of(&usage(80)), MicroUsd(450));
        assert_eq!(price(cheap).cost_of(&usage(0)), MicroUsd(450));
        assert_eq!(price(cheap).cost_of(&usage(80)), MicroUsd(234));
        // More than was read can't have been in the cache.
        assert_eq!(price(cheap).cost_of(&usage(1000)), MicroUsd(180));
    }
}
