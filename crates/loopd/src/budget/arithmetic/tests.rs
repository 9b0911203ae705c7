//! Tables for chains of accounts, and what holds for all of them.

use super::*;
use proptest::prelude::*;

fn spend(tokens: u64, usd: u64) -> Spend {
    Spend {
        tokens,
        usd: micro_usd(usd),
    }
}

fn limits(tokens: Option<u64>, usd: Option<u64>) -> Limits {
    Limits {
        tokens,
        usd: usd.map(micro_usd),
    }
}

/// A chain with these limits, the root first.
fn chain(limits: &[Limits]) -> Vec<Node> {
    let node = |(n, limits): (usize, &Limits)| Node {
        key: AccountKey::new(format!("a{n}")).unwrap(),
        account: Account::new(*limits),
    };
    limits.iter().enumerate().map(node).collect()
}

#[test]
fn a_reservation_fits_everywhere_or_is_refused_nearest_the_root() {
    let check = |limits: &[Limits], amount: Spend, expect: Option<(&str, Meter, u64)>| {
        let mut chain = chain(limits);
        let before = chain.clone();
        let outcome = reserve(&mut chain, amount);
        let refused = outcome.err().map(|refusal| {
            assert_eq!(chain, before, "a refusal changes nothing");
            (refusal.account.to_string(), refusal.which, refusal.limit)
        });
        let expect = expect.map(|(key, meter, limit)| (key.to_owned(), meter, limit));
        assert_eq!(refused, expect);
    };
    let free = limits(None, None);
    let ten = limits(Some(10), None);
    let five = limits(Some(5), None);
    let cent = limits(None, Some(10_000));
    check(&[], spend(1, 1), None);
    check(&[free], spend(MAX_AMOUNT, MAX_AMOUNT), None);
    check(
        &[free],
        spend(MAX_AMOUNT + 1, 0),
        Some(("a0", Meter::Tokens, MAX_AMOUNT)),
    );
    check(&[ten], spend(10, 99), None);
    check(&[ten], spend(11, 0), Some(("a0", Meter::Tokens, 10)));
    check(&[ten, five], spend(6, 0), Some(("a1", Meter::Tokens, 5)));
    check(&[five, ten], spend(11, 0), Some(("a0", Meter::Tokens, 5)));
    check(
        &[free, cent, ten],
        spend(1, 10_001),
        Some(("a1", Meter::Usd, 10_000)),
    );
    check(
        &[limits(Some(0), None)],
        spend(1, 0),
        Some(("a0", Meter::Tokens, 0)),
    );
    check(&[limits(Some(0), Some(0))], spend(0, 0), None);
}

#[test]
fn settling_frees_what_was_not_used() {
    let mut chain = chain(&[limits(Some(10), None), limits(None, None)]);
    reserve(&mut chain, spend(8, 0)).unwrap();
    let refusal = reserve(&mut chain, spend(3, 0)).unwrap_err();
    assert_eq!(
        (refusal.reserved, refusal.wanted, refusal.left()),
        (8, 3, 2)
    );
    assert_eq!(left(&chain), limits(Some(2), None));
    assert_eq!(settle(&mut chain, spend(8, 0), spend(5, 0)), None);
    for node in &chain {
        assert_eq!(
            (node.account.spent, node.account.reserved),
            (spend(5, 0), spend(0, 0))
        );
    }
    assert_eq!(left(&chain), limits(Some(5), None));
    reserve(&mut chain, spend(5, 0)).unwrap();
    release(&mut chain, spend(5, 0));
    assert_eq!(left(&chain), limits(Some(5), None));
}

#[test]
fn an_overrun_stops_its_account_and_whoever_it_took_past_a_limit() {
    let mut chain = chain(&[
        limits(Some(100), None),
        limits(Some(9), None),
        limits(None, None),
    ]);
    reserve(&mut chain, spend(8, 0)).unwrap();
    assert_eq!(
        settle(&mut chain, spend(8, 0), spend(12, 0)),
        Some(Meter::Tokens)
    );
    let stopped: Vec<_> = chain.iter().map(|node| node.account.overrun).collect();
    assert_eq!(stopped, [None, None, Some(Meter::Tokens)]);
    // The account in the middle is past its limit, so that not even nothing is admitted below it.
    let refusal = reserve(&mut chain, spend(0, 0)).unwrap_err();
    assert_eq!(
        (refusal.account.as_str(), refusal.bound),
        ("a1", Bound::Limit)
    );
    let refusal = reserve(&mut chain[2..], spend(0, 0)).unwrap_err();
    assert_eq!((refusal.bound, refusal.left()), (Bound::Overrun, 0));
    reserve(&mut chain[..1], spend(88, 0)).unwrap();
    assert_eq!(left(&chain), limits(Some(0), Some(0)));
}

#[test]
fn money_that_is_gone_refuses_no_call_that_costs_none() {
    // Past its limit, by a call of its own and by one below.
    let mut chain = chain(&[limits(Some(100), Some(9)), limits(None, None)]);
    reserve(&mut chain, spend(0, 8)).unwrap();
    assert_eq!(
        settle(&mut chain, spend(0, 8), spend(0, 50)),
        Some(Meter::Usd)
    );
    assert_eq!(chain[1].account.overrun, Some(Meter::Usd));
    for amount in [spend(0, 1), spend(50, 1)] {
        let refusal = reserve(&mut chain, amount).unwrap_err();
        assert_eq!(refusal.which, Meter::Usd);
        let refusal = reserve(&mut chain[1..], amount).unwrap_err();
        assert_eq!((refusal.which, refusal.bound), (Meter::Usd, Bound::Overrun));
    }
    assert_eq!(left(&chain), limits(Some(100), Some(0)));
    reserve(&mut chain, spend(100, 0)).unwrap();
    let refusal = reserve(&mut chain, spend(1, 0)).unwrap_err();
    assert_eq!((refusal.which, refusal.limit), (Meter::Tokens, 100));
    // Tokens that overran on top of it stop everything.
    assert_eq!(
        settle(&mut chain, spend(100, 0), spend(101, 0)),
        Some(Meter::Tokens)
    );
    assert_eq!(chain[1].account.overrun, Some(Meter::Tokens));
    reserve(&mut chain[1..], spend(0, 0)).unwrap_err();
}

#[test]
fn without_a_limit_nothing_is_refused_whatever_was_spent() {
    let mut chain = chain(&[limits(None, None), limits(None, None)]);
    reserve(&mut chain, spend(8, 0)).unwrap();
    let overran = settle(&mut chain, spend(8, 0), spend(u64::MAX, 0));
    assert_eq!(overran, Some(Meter::Tokens));
    for node in &chain {
        assert_eq!(node.account.spent.tokens, MAX_AMOUNT);
        assert_eq!(node.account.overrun, None);
    }
    reserve(&mut chain, spend(8, 8)).unwrap();
    assert_eq!(left(&chain), limits(None, None));
}

proptest! {
    /// Whatever is reserved, settled within its reservation or released: no limit is passed, and
    /// what is spent is the sum of what was charged.
    #[test]
    fn limits_hold(
        limits_of in prop::collection::vec(
            (prop::option::of(0..500_u64), prop::option::of(0..500_u64)), 1..6),
        steps in prop::collection::vec((0..3_u8, 0..200_u64, 0..200_u64), 0..60),
    ) {
        let limits_of: Vec<_> = limits_of.into_iter().map(|(t, u)| limits(t, u)).collect();
        let mut chain = chain(&limits_of);
        let mut held = Vec::new();
        let mut charged = Spend::default();
        for (what, tokens, usd) in steps {
            match (what, held.pop()) {
                (0, last) => {
                    held.extend(last);
                    if reserve(&mut chain, spend(tokens, usd)).is_ok() {
                        held.push(spend(tokens, usd));
                    }
                }
                (1, Some(amount)) => {
                    let used = Spend {
                        tokens: tokens.min(amount.tokens),
                        usd: micro_usd(usd).min(amount.usd),
                    };
                    prop_assert_eq!(settle(&mut chain, amount, used), None);
                    charged = charged.plus(used);
                }
                (_, Some(amount)) => release(&mut chain, amount),
                (_, None) => {}
            }
            let reserved = held.iter().fold(Spend::default(), |sum, amount| sum.plus(*amount));
            for node in &chain {
                prop_assert_eq!((node.account.spent, node.account.reserved), (charged, reserved));
                for meter in Meter::ALL {
                    let taken = meter.of(charged) + meter.of(reserved);
                    prop_assert!(taken <= node.account.limit(meter));
                }
            }
        }
    }
}
