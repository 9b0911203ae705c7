//! Whole trees under random schedules, on the arithmetic alone, which is pure: so there can be very
//! many of them. `property` holds the store to the same rules.

use crate::support::{key, spend};
use bxcore::guardrails::Limits;
use bxcore::money::MicroUsd;
use bxcore::usage::Spend;
use loopd::budget::{Account, Node, release, reserve, settle};

/// The deepest account, the root being at depth 0.
const MAX_DEPTH: usize = 6;
/// The most children that work at once below one account.
const MAX_CHILDREN: usize = 64;
/// How many steps a schedule has.
const STEPS: usize = 120;
/// How many schedules are tried: all of them in the large proof, a sample otherwise.
const SCHEDULES: (u64, u64) = (100_000, 2_000);

/// Random numbers by a seed, so that a schedule is its number (SplitMix64).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn place(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap()
    }
}

/// A call that is under way: the account that it was made under, and what is held for it.
type UnderWay = (usize, Spend);

struct Tree {
    nodes: Vec<Node>,
    parents: Vec<Option<usize>>,
    under_way: Vec<UnderWay>,
    /// What was charged, a row a call.
    ledger: Vec<UnderWay>,
}

impl Tree {
    /// A root with up to 64 children at once, and more below them.
    fn random(chance: &mut Chance) -> Self {
        let count = 1 + chance.place(MAX_CHILDREN + 16);
        let (mut parents, mut depths) = (vec![None], vec![0_usize]);
        for _ in 1..count {
            // Half of them are the root's own.
            let mut parent = chance.place(2 * parents.len());
            if parent >= parents.len() || depths[parent] == MAX_DEPTH {
                parent = 0;
            }
            depths.push(depths[parent] + 1);
            parents.push(Some(parent));
        }
        let nodes = (0..count).map(|n| Node {
            key: key(&format!("account-{n}")),
            account: Account::new(limits(chance)),
        });
        Self {
            nodes: nodes.collect(),
            parents,
            under_way: Vec::new(),
            ledger: Vec::new(),
        }
    }

    /// The places of a chain, from the root down.
    fn chain(&self, at: usize) -> Vec<usize> {
        let mut chain: Vec<usize> =
            std::iter::successors(Some(at), |at| self.parents[*at]).collect();
        chain.reverse();
        chain
    }

    fn on_chain<T>(&mut self, at: usize, work: impl FnOnce(&mut [Node]) -> T) -> T {
        let places = self.chain(at);
        let mut chain: Vec<Node> = places.iter().map(|at| self.nodes[*at].clone()).collect();
        let done = work(&mut chain);
        for (at, node) in places.into_iter().zip(chain) {
            self.nodes[at] = node;
        }
        done
    }

    fn fits(&self, at: usize, amount: Spend) -> bool {
        self.chain(at).into_iter().all(|at| {
            let account = &self.nodes[at].account;
            let total = account.spent.plus(account.reserved).plus(amount);
            let Limits { tokens, usd } = account.limits;
            let costs = amount.usd > MicroUsd::ZERO;
            tokens.is_none_or(|limit| total.tokens <= limit)
                && usd.is_none_or(|limit| !costs || total.usd <= limit)
        })
    }

    fn reserve(&mut self, at: usize, amount: Spend) {
        let fits = self.fits(at, amount);
        let admitted = self.on_chain(at, |chain| reserve(chain, amount)).is_ok();
        assert_eq!(admitted, fits, "{amount:?} at {at}");
        if admitted {
            self.under_way.push((at, amount));
        }
    }

    fn settle(&mut self, (at, held): UnderWay, actual: Spend) {
        self.on_chain(at, |chain| settle(chain, held, actual));
        self.ledger.push((at, actual));
    }

    /// Dies and starts again: what is held for calls whose end was not seen is charged whole.
    fn crash(&mut self) {
        for call in std::mem::take(&mut self.under_way) {
            self.settle(call, call.1);
        }
    }

    fn step(&mut self, chance: &mut Chance) {
        if chance.below(2) == 0 {
            let at = chance.place(self.nodes.len());
            return self.reserve(at, amount(chance));
        }
        if chance.below(40) == 0 {
            return self.crash();
        }
        if self.under_way.is_empty() {
            return;
        }
        let place = chance.place(self.under_way.len());
        let call = self.under_way.swap_remove(place);
        if chance.below(10) == 0 {
            return self.on_chain(call.0, |chain| release(chain, call.1));
        }
        let part = |amount: u64, tenths: u64| amount * tenths / 10;
        let tenths = chance.below(11);
        let usd = part(call.1.usd.micros().unsigned_abs(), tenths);
        self.settle(call, spend(part(call.1.tokens, tenths), usd.cast_signed()));
    }

    /// Nothing is over a limit, and every account has what its own rows and those below it say.
    fn check(&self, seed: u64) {
        for node in &self.nodes {
            let account = &node.account;
            let total = account.spent.plus(account.reserved);
            let Limits { tokens, usd } = account.limits;
            assert!(
                tokens.is_none_or(|limit| total.tokens <= limit),
                "seed {seed}"
            );
            assert!(usd.is_none_or(|limit| total.usd <= limit), "seed {seed}");
        }
        let sum = |rows: &[UnderWay]| {
            rows.iter()
                .fold(Spend::default(), |sum, row| sum.plus(row.1))
        };
        let root = &self.nodes[0].account;
        assert_eq!(root.spent, sum(&self.ledger), "seed {seed}");
        assert_eq!(root.reserved, sum(&self.under_way), "seed {seed}");
    }
}

fn limits(chance: &mut Chance) -> Limits {
    let mut some = || (chance.below(10) < 7).then(|| chance.below(5_000));
    let (tokens, usd) = (some(), some());
    Limits {
        tokens,
        usd: usd.map(|micros| MicroUsd::from_micros(micros.cast_signed()).unwrap()),
    }
}

fn amount(chance: &mut Chance) -> Spend {
    // A call on this box costs no money.
    let usd = if chance.below(4) == 0 {
        0
    } else {
        chance.below(300)
    };
    spend(chance.below(300), usd.cast_signed())
}

fn schedules() -> u64 {
    let (whole, sample) = SCHEDULES;
    if std::env::var_os("BXTEST_WHOLE").is_some() {
        whole
    } else {
        sample
    }
}

#[test]
fn no_schedule_of_a_tree_goes_over_a_limit_or_loses_a_row() {
    for seed in 0..schedules() {
        let mut chance = Chance(seed);
        let mut tree = Tree::random(&mut chance);
        for _ in 0..STEPS {
            tree.step(&mut chance);
        }
        tree.check(seed);
        tree.crash();
        tree.check(seed);
        let held = tree.nodes.iter().map(|node| node.account.reserved);
        assert!(
            held.into_iter().all(|held| held == Spend::default()),
            "seed {seed}"
        );
    }
}

/// Where calls are small against a limit, nearly all of it can be used before one is refused.
#[test]
fn a_limit_is_used_before_a_call_is_refused() {
    const LIMIT: u64 = 100_000;
    for seed in 0..schedules() / 10 {
        let mut chance = Chance(seed);
        let mut tree = Tree::random(&mut chance);
        for node in &mut tree.nodes {
            node.account.limits = Limits::default();
        }
        tree.nodes[0].account.limits.tokens = Some(LIMIT);
        loop {
            let at = chance.place(tree.nodes.len());
            let amount = spend(1 + chance.below(LIMIT / 100), 0);
            if !tree.fits(at, amount) {
                break;
            }
            tree.reserve(at, amount);
            // Most end before the next begins; as many as 64 may be under way.
            while tree.under_way.len() > MAX_CHILDREN || chance.below(3) > 0 {
                let Some(call) = tree.under_way.pop() else {
                    break;
                };
                tree.settle(call, call.1);
            }
        }
        let root = &tree.nodes[0].account;
        let used = root.spent.plus(root.reserved).tokens;
        assert!(used * 100 >= LIMIT * 95, "seed {seed}: {used}");
    }
}
