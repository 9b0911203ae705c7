//! Reserve, settle, release: the three things that happen to a chain of accounts.
//!
//! A chain runs from the root to the account that a call is made under. Without an overrun, every
//! account of it keeps `spent + reserved <= limit` on both meters.

use super::account::{Account, MAX_AMOUNT, Meter};
use super::key::AccountKey;
use super::refusal::{Bound, BudgetRefusal};
use bxcore::guardrails::Limits;
use bxcore::money::MicroUsd;
use bxcore::usage::Spend;

/// An account with its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub key: AccountKey,
    /// Its figures.
    pub account: Account,
}

/// Holds `amount` on every account of the chain, or on none.
///
/// # Errors
/// The first account from the root that has no room; the chain is as it was.
pub fn reserve(chain: &mut [Node], amount: Spend) -> Result<(), BudgetRefusal> {
    if let Some(refusal) = chain.iter().find_map(|node| refusal(node, amount)) {
        return Err(refusal);
    }
    for node in chain {
        node.account.reserved = plus(node.account.reserved, amount);
    }
    Ok(())
}

/// Turns what was held for a call into what it cost, on every account of the chain.
///
/// A call that cost more than was held is charged whole. The account it was made under, the last
/// of the chain, is then stopped where anything limits that meter; the accounts above it are stopped
/// by their own limits, if it took them past one. Gives the meter that overran.
pub fn settle(chain: &mut [Node], held: Spend, actual: Spend) -> Option<Meter> {
    for node in &mut *chain {
        let account = &mut node.account;
        account.reserved = account.reserved.minus(held);
        account.spent = plus(account.spent, actual);
    }
    let overran = |meter: &Meter| meter.of(actual) > meter.of(held);
    let is_limited = |meter: &Meter| chain.iter().any(|node| node.account.is_limited(*meter));
    let stops = Meter::ALL
        .into_iter()
        .find(|meter| overran(meter) && is_limited(meter));
    if let (Some(meter), Some(node)) = (stops, chain.last_mut()) {
        node.account.stop(meter);
    }
    stops.or_else(|| Meter::ALL.into_iter().find(overran))
}

/// Gives back what was held for a call that was never made.
pub fn release(chain: &mut [Node], held: Spend) {
    for node in chain {
        node.account.reserved = node.account.reserved.minus(held);
    }
}

/// What could still be held under the last account of a chain: the least that any has left.
///
/// A meter that no account limits is `None`.
pub fn left(chain: &[Node]) -> Limits {
    let least = |meter: Meter, limited: fn(&Limits) -> bool| {
        let bounds = |account: &Account| limited(&account.limits) || account.is_stopped(meter);
        chain
            .iter()
            .filter(|node| bounds(&node.account))
            .map(|node| node.account.left(meter))
            .min()
    };
    Limits {
        tokens: least(Meter::Tokens, |limits| limits.tokens.is_some()),
        usd: least(Meter::Usd, |limits| limits.usd.is_some()).map(micro_usd),
    }
}

fn refusal(node: &Node, amount: Spend) -> Option<BudgetRefusal> {
    let Node { key, account } = node;
    let refuse = |which: Meter, bound| BudgetRefusal {
        account: key.clone(),
        which,
        bound,
        limit: account.limit(which),
        spent: which.of(account.spent),
        reserved: which.of(account.reserved),
        wanted: which.of(amount),
    };
    let takes = |meter: &Meter| is_taken(*meter, amount);
    if let Some(meter) = account.overrun
        && Meter::ALL
            .iter()
            .any(|meter| takes(meter) && account.is_stopped(*meter))
    {
        return Some(refuse(meter, Bound::Overrun));
    }
    Meter::ALL
        .into_iter()
        .filter(takes)
        .find(|meter| exceeds(account, *meter, amount))
        .map(|meter| refuse(meter, Bound::Limit))
}

/// Whether a call takes from a meter. Each takes tokens, also one that is not counted in them; one
/// that costs nothing is no matter of money, whatever others have cost.
fn is_taken(meter: Meter, amount: Spend) -> bool {
    match meter {
        Meter::Tokens => true,
        Meter::Usd => meter.of(amount) > 0,
    }
}

/// Whether the amount does not fit; an account past its limit of tokens admits not even nothing.
///
/// Where nothing limits the meter every amount fits that can be counted, whatever was spent before.
fn exceeds(account: &Account, meter: Meter, amount: Spend) -> bool {
    if !account.is_limited(meter) {
        return meter.of(amount) > MAX_AMOUNT;
    }
    let taken = meter
        .of(account.spent)
        .checked_add(meter.of(account.reserved));
    let wanted = taken.and_then(|taken| taken.checked_add(meter.of(amount)));
    wanted.is_none_or(|wanted| wanted > account.limit(meter))
}

fn plus(a: Spend, b: Spend) -> Spend {
    let sum = a.plus(b);
    Spend {
        tokens: sum.tokens.min(MAX_AMOUNT),
        usd: sum.usd,
    }
}

fn micro_usd(micros: u64) -> MicroUsd {
    let micros = i64::try_from(micros).unwrap_or(i64::MAX);
    MicroUsd::from_micros(micros).unwrap_or(MicroUsd::MAX)
}

#[cfg(test)]
mod tests;
