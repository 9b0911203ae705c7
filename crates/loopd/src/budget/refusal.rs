//! Why a call may not be made: which account, which meter, and the figures.

use super::account::Meter;
use super::key::AccountKey;

/// What keeps an account from taking a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// Its limit.
    Limit,
    /// A call before cost more than was held for it, and stopped the account.
    Overrun,
}

/// A reservation that was refused, by the account nearest the root that refuses it.
///
/// The figures are in the unit of `which`: tokens or micro-dollars.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.sentence())]
pub struct BudgetRefusal {
    /// The account that refuses.
    pub account: AccountKey,
    /// The meter that it looked at.
    pub which: Meter,
    /// What keeps it.
    pub bound: Bound,
    /// Its limit.
    pub limit: u64,
    /// What was spent.
    pub spent: u64,
    /// What other calls hold.
    pub reserved: u64,
    /// What was asked for.
    pub wanted: u64,
}

impl BudgetRefusal {
    /// The most that the account would have admitted; 0 after an overrun.
    pub fn left(&self) -> u64 {
        match self.bound {
            Bound::Limit => self
                .limit
                .saturating_sub(self.spent)
                .saturating_sub(self.reserved),
            Bound::Overrun => 0,
        }
    }

    fn sentence(&self) -> String {
        let Self {
            account,
            limit,
            spent,
            reserved,
            wanted,
            ..
        } = self;
        let unit = self.which.name();
        match self.bound {
            Bound::Limit => format!(
                "account `{account}` has a limit of {limit} {unit}, of which {spent} are spent and \
                 {reserved} held for calls under way; {wanted} more don't fit"
            ),
            Bound::Overrun => format!(
                "account `{account}` is stopped: a call cost more {unit} than were held for it \
                 ({spent} are spent)"
            ),
        }
    }
}
