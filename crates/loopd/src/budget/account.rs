//! One account of the tree and what it still has room for.

use bxcore::guardrails::Limits;
use bxcore::usage::Spend;

/// The largest amount of tokens or micro-dollars that an account can hold.
///
/// It stands in for "no limit", so that sums stay exact and fit the database's integers.
pub const MAX_AMOUNT: u64 = i64::MAX.unsigned_abs();

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Meter {
    /// Tokens read and written.
    Tokens,
    /// Money, in micro-dollars.
    Usd,
}

impl Meter {
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::Tokens, Self::Usd];

    /// The meter's unit as it is written in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tokens => "tokens",
            Self::Usd => "micro-dollars",
        }
    }

    /// What an amount says on this meter.
    pub fn of(self, spend: Spend) -> u64 {
        match self {
            Self::Tokens => spend.tokens,
            // An amount of money is never negative.
            Self::Usd => spend.usd.micros().unsigned_abs(),
        }
    }
}

/// An account: its limits, and what was taken from them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Account {
    /// The most that may be spent here and below.
    pub limits: Limits,
    /// What was spent here and below.
    pub spent: Spend,
    /// What is held here and below for calls under way.
    pub reserved: Spend,
    /// On which meter a call cost more than was held for it. Such an account takes no more calls;
    /// where it was money, none that costs any.
    pub overrun: Option<Meter>,
}

impl Account {
    /// An account in which nothing has happened yet.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// The limit on one meter; [`MAX_AMOUNT`] where there is none.
    pub fn limit(&self, meter: Meter) -> u64 {
        self.configured(meter)
            .map_or(MAX_AMOUNT, |limit| limit.min(MAX_AMOUNT))
    }

    /// Whether anything limits one meter here.
    pub fn is_limited(&self, meter: Meter) -> bool {
        self.configured(meter).is_some()
    }

    fn configured(&self, meter: Meter) -> Option<u64> {
        match meter {
            Meter::Tokens => self.limits.tokens,
            Meter::Usd => self.limits.usd.map(|usd| usd.micros().unsigned_abs()),
        }
    }

    /// Whether an overrun stops one meter here: every call takes tokens, but not all cost money.
    pub fn is_stopped(&self, meter: Meter) -> bool {
        match self.overrun {
            None => false,
            Some(Meter::Tokens) => true,
            Some(Meter::Usd) => meter == Meter::Usd,
        }
    }

    /// Notes an overrun. One of tokens counts for more than one of money.
    pub fn stop(&mut self, meter: Meter) {
        if self.overrun != Some(Meter::Tokens) {
            self.overrun = Some(meter);
        }
    }

    /// What could still be held on one meter.
    pub fn left(&self, meter: Meter) -> u64 {
        if self.is_stopped(meter) {
            return 0;
        }
        self.limit(meter)
            .saturating_sub(meter.of(self.spent))
            .saturating_sub(meter.of(self.reserved))
    }
}
