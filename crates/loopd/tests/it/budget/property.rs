//! Random trees, random calls, settlements held back, crashes: held against a plain sum.

use crate::support::*;
use bxcore::guardrails::Limits;
use bxcore::id::{ModelCallId, SessionId};
use bxcore::money::MicroUsd;
use bxcore::usage::{Spend, UsageSource};
use loopd::store::{Batch, Op, Settlement, Store};
use proptest::prelude::*;

/// The deepest account, the root being at depth 0.
const MAX_DEPTH: usize = 6;
/// How many sessions make calls.
const SESSIONS: usize = 4;

/// One account: its parent's place in the list (none for the first) and its limits.
#[derive(Debug, Clone)]
struct Spec {
    parent: Option<usize>,
    limits: Limits,
}

#[derive(Debug, Clone)]
enum Step {
    /// Several calls at once, one a session: account and amount.
    Reserve(Vec<(usize, Spend)>),
    /// The oldest call under way ends: how much of what was held it used, in tenths.
    Settle(u64),
    /// The newest call under way was never made.
    Release,
    /// The end of the oldest call under way was never seen.
    Lose,
    /// The process dies and starts again.
    Crash,
}

fn limits() -> impl Strategy<Value = Limits> {
    let some = |range: std::ops::Range<u64>| prop::option::weighted(0.7, range);
    (some(0..2_000), some(0..2_000)).prop_map(|(tokens, usd)| Limits {
        tokens,
        usd: usd.map(|micros| MicroUsd::from_micros(micros.cast_signed()).unwrap()),
    })
}

fn tree() -> impl Strategy<Value = Vec<Spec>> {
    let account = (any::<prop::sample::Index>(), limits());
    prop::collection::vec(account, 1..12).prop_map(|accounts| {
        let mut tree: Vec<Spec> = Vec::new();
        let mut depths: Vec<usize> = Vec::new();
        for (place, limits) in accounts {
            let mut parent = (!tree.is_empty()).then(|| place.index(tree.len()));
            // Too deep: hang it beside its parent instead.
            if parent.is_some_and(|parent| depths[parent] == MAX_DEPTH) {
                parent = parent.and_then(|parent| tree[parent].parent);
            }
            depths.push(parent.map_or(0, |parent| depths[parent] + 1));
            tree.push(Spec { parent, limits });
        }
        tree
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // A call on this box costs no money.
    let usd = prop_oneof![3 => 0..400_i64, 1 => Just(0)];
    let amount = (0..400_u64, usd).prop_map(|(tokens, usd)| spend(tokens, usd));
    let call = (0..12_usize, amount);
    let step = prop_oneof![
        5 => prop::collection::vec(call, 1..=SESSIONS).prop_map(Step::Reserve),
        4 => (0..=10_u64).prop_map(Step::Settle),
        1 => (11..15_u64).prop_map(Step::Settle),
        1 => Just(Step::Release),
        1 => Just(Step::Lose),
        1 => Just(Step::Crash),
    ];
    prop::collection::vec(step, 1..40)
}

/// What is under way, as the test knows it.
struct UnderWay {
    session: SessionId,
    call: ModelCallId,
    account: usize,
    amount: Spend,
}

/// What an account that overran takes no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Overrun {
    None,
    CallsThatCost,
    AnyCall,
}

impl Overrun {
    fn admits(self, amount: Spend) -> bool {
        match self {
            Self::None => true,
            Self::CallsThatCost => amount.usd == MicroUsd::ZERO,
            Self::AnyCall => false,
        }
    }
}

/// The plain sum that the store is held against.
struct Model {
    tree: Vec<Spec>,
    charged: Vec<(usize, Spend)>,
    under_way: Vec<UnderWay>,
    overrun: Vec<Overrun>,
    last_call: u64,
}

impl Model {
    fn chain(&self, account: usize) -> Vec<usize> {
        std::iter::successors(Some(account), |at| self.tree[*at].parent).collect()
    }

    fn below(&self, account: usize, at: usize) -> bool {
        self.chain(at).contains(&account)
    }

    fn spent(&self, account: usize) -> Spend {
        let below = self
            .charged
            .iter()
            .filter(|(at, _)| self.below(account, *at));
        below.fold(Spend::default(), |sum, (_, spend)| sum.plus(*spend))
    }

    fn reserved(&self, account: usize) -> Spend {
        let below = self
            .under_way
            .iter()
            .filter(|call| self.below(account, call.account));
        below.fold(Spend::default(), |sum, call| sum.plus(call.amount))
    }

    fn admits(&self, account: usize, amount: Spend) -> bool {
        self.chain(account).into_iter().all(|at| {
            let total = self.spent(at).plus(self.reserved(at)).plus(amount);
            let Limits { tokens, usd } = self.tree[at].limits;
            let costs = amount.usd > MicroUsd::ZERO;
            self.overrun[at].admits(amount)
                && tokens.is_none_or(|limit| total.tokens <= limit)
                && usd.is_none_or(|limit| !costs || total.usd <= limit)
        })
    }

    fn charge(&mut self, call: &UnderWay, actual: Spend) {
        // A meter that nothing limits stops nobody.
        let limits = |limited: fn(&Limits) -> bool| {
            let chain = self.chain(call.account);
            chain.into_iter().any(|at| limited(&self.tree[at].limits))
        };
        let tokens = actual.tokens > call.amount.tokens && limits(|limits| limits.tokens.is_some());
        let usd = actual.usd > call.amount.usd && limits(|limits| limits.usd.is_some());
        let overrun = &mut self.overrun[call.account];
        if tokens {
            *overrun = Overrun::AnyCall;
        } else if usd && *overrun == Overrun::None {
            *overrun = Overrun::CallsThatCost;
        }
        self.charged.push((call.account, actual));
    }

    fn any_overrun_below(&self, account: usize) -> bool {
        (0..self.tree.len()).any(|at| self.overrun[at] != Overrun::None && self.below(account, at))
    }
}

fn name(account: usize) -> String {
    format!("account-{account}")
}

fn session(n: usize) -> SessionId {
    id(&format!("chat-{n}"))
}

async fn plant(store: &Store, tree: &[Spec]) {
    for n in 0..SESSIONS {
        let session = session(n);
        let batch = Batch::new(session.clone()).entry(open(&session));
        store.commit(batch).await.unwrap();
    }
    for (n, spec) in tree.iter().enumerate() {
        let parent = spec.parent.map(name);
        let op = ensure(&name(n), parent.as_deref(), spec.limits);
        store.commit(Batch::new(session(0)).op(op)).await.unwrap();
    }
}

/// Makes the calls at once. The store's own order decides; whatever it admits must have fitted, and
/// whatever it refuses must not fit into what it admitted.
async fn reserve_at_once(store: &Store, model: &mut Model, calls: Vec<(usize, Spend)>) {
    let mut sent = Vec::new();
    for (n, (account, amount)) in calls.into_iter().enumerate() {
        let account = account % model.tree.len();
        model.last_call += 1;
        let call = model.last_call;
        let batch = Batch::new(session(n)).op(reserve(&name(account), call, amount));
        let store = store.clone();
        let task = tokio::spawn(async move { store.commit(batch).await.unwrap() });
        sent.push((n, call, account, amount, task));
    }
    let mut refused = Vec::new();
    for (n, call, account, amount, task) in sent {
        match task.await.unwrap().reserved.unwrap() {
            Ok(()) => {
                let stopped = !model.overrun[account].admits(amount);
                assert!(!stopped, "a stopped account admitted a call");
                model.under_way.push(UnderWay {
                    session: session(n),
                    call: ModelCallId(call),
                    account,
                    amount,
                });
            }
            Err(_) => refused.push((account, amount)),
        }
    }
    for (account, amount) in refused {
        assert!(
            !model.admits(account, amount),
            "{amount:?} was refused and fits"
        );
    }
}

async fn end_oldest(store: &Store, model: &mut Model, tenths: Option<u64>) {
    if model.under_way.is_empty() {
        return;
    }
    let call = model.under_way.remove(0);
    let part = |amount: u64, tenths: u64| amount * tenths / 10;
    let actual = tenths.map_or(call.amount, |tenths| {
        let usd = part(call.amount.usd.micros().unsigned_abs(), tenths);
        spend(part(call.amount.tokens, tenths), usd.cast_signed())
    });
    let settlement = Settlement {
        call: call.call,
        // A lost call is charged what was held, whatever is said here.
        actual: if tenths.is_some() {
            actual
        } else {
            Spend::default()
        },
        usage: bxcore::usage::Usage::default(),
        source: tenths.map_or(UsageSource::Lost, |_| UsageSource::Estimated),
    };
    let batch = Batch::new(call.session.clone()).op(Op::Settle(settlement));
    store.commit(batch).await.unwrap();
    model.charge(&call, actual);
}

async fn release_newest(store: &Store, model: &mut Model) {
    if let Some(call) = model.under_way.pop() {
        let release = Op::Release { call: call.call };
        let batch = Batch::new(call.session).op(release);
        store.commit(batch).await.unwrap();
    }
}

async fn compare(store: &Store, folder: &Folder, model: &Model) {
    for account in 0..model.tree.len() {
        let view = store.account(&key(&name(account))).await.unwrap().unwrap();
        let expected = (model.spent(account), model.reserved(account));
        assert_eq!((view.account.spent, view.account.reserved), expected);
        if !model.any_overrun_below(account) {
            let total = expected.0.plus(expected.1);
            let Limits { tokens, usd } = model.tree[account].limits;
            assert!(
                tokens.is_none_or(|limit| total.tokens <= limit),
                "{account} is overspent"
            );
            assert!(
                usd.is_none_or(|limit| total.usd <= limit),
                "{account} is overspent"
            );
        }
    }
    // Every account hangs below the first, which therefore has the whole ledger.
    let root = model.spent(0);
    let tokens = folder.number("SELECT coalesce(sum(tokens), 0) FROM ledger");
    let usd = folder.number("SELECT coalesce(sum(usd), 0) FROM ledger");
    assert_eq!(
        (tokens, usd),
        (root.tokens.cast_signed(), root.usd.micros())
    );
    let held = folder.number("SELECT count(*) FROM reservations");
    assert_eq!(held.unsigned_abs(), model.under_way.len() as u64);
}

async fn run(tree: Vec<Spec>, steps: Vec<Step>) {
    let mut folder = Folder::new();
    let (mut store, _) = folder.open();
    plant(&store, &tree).await;
    let mut model = Model {
        overrun: vec![Overrun::None; tree.len()],
        tree,
        charged: Vec::new(),
        under_way: Vec::new(),
        last_call: 0,
    };
    for step in steps {
        match step {
            Step::Reserve(calls) => reserve_at_once(&store, &mut model, calls).await,
            Step::Settle(tenths) => end_oldest(&store, &mut model, Some(tenths)).await,
            Step::Lose => end_oldest(&store, &mut model, None).await,
            Step::Release => release_newest(&store, &mut model).await,
            Step::Crash => {
                let crash = folder.crashed();
                let (again, recovery) = crash.open();
                assert_eq!(recovery.lost_calls.len(), model.under_way.len());
                for call in std::mem::take(&mut model.under_way) {
                    model.charge(&call, call.amount);
                }
                store.close().await;
                (folder, store) = (crash, again);
            }
        }
        compare(&store, &folder, &model).await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_account_is_overspent_and_nothing_is_forgotten(tree in tree(), steps in steps()) {
        block_on(run(tree, steps));
    }
}
