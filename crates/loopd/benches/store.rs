//! Commits a second with 1, 32 and 256 sessions at work, each waiting for its own.
//!
//! Every commit is synced. What is measured is a turn's typical batch: two entries and the charge of
//! a call, and the reservation of the next. Set `LOOPD_BENCH_DIR` to choose the disk.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    reason = "a bench stops by panicking, and criterion's macros write functions without docs"
)]

use bxcore::chat::RawMessage;
use bxcore::guardrails::Limits;
use bxcore::id::{BackendName, CallId, ModelCallId, SessionId, TurnId};
use bxcore::label::Label;
use bxcore::money::MicroUsd;
use bxcore::transcript::{CallOutcome, Entry, Open, Tool, User};
use bxcore::usage::{Spend, Usage, UsageSource};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use loopd::budget::AccountKey;
use loopd::store::{AccountSpec, Batch, Op, Reservation, Settlement, Store, StoreOptions};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const SESSIONS: [usize; 3] = [1, 32, 256];
/// How much text an entry has, in bytes.
const ENTRY_BYTES: usize = 300;

fn folder() -> TempDir {
    match std::env::var_os("LOOPD_BENCH_DIR") {
        Some(place) => tempfile::tempdir_in(place).unwrap(),
        None => tempfile::tempdir().unwrap(),
    }
}

fn spend(tokens: u64) -> Spend {
    Spend {
        tokens,
        usd: MicroUsd::ZERO,
    }
}

fn reserve(session: &SessionId, call: u64) -> Op {
    Op::Reserve(Reservation {
        account: AccountKey::turn(session, TurnId::FIRST),
        call: ModelCallId(call),
        amount: spend(500),
        backend: BackendName::new("local").unwrap(),
        model: "tiny".into(),
    })
}

fn first(session: &SessionId) -> Batch {
    let day = AccountKey::new("day").unwrap();
    let account = AccountKey::turn(session, TurnId::FIRST);
    let ensure = |key: AccountKey, parent| {
        Op::EnsureAccount(AccountSpec {
            key,
            parent,
            limits: Limits::default(),
        })
    };
    Batch::new(session.clone())
        .entry(Entry::Open(Open {
            session: session.clone(),
            parent: None,
            lineage: None,
            label: Label::OWNER,
        }))
        .entry(Entry::User(User {
            turn: TurnId::FIRST,
            label: Label::OWNER,
            memory: None,
            message: RawMessage::user("Hello"),
        }))
        .op(ensure(day.clone(), None))
        .op(ensure(account, Some(day)))
        .op(reserve(session, 1))
}

fn next(session: &SessionId, call: u64, text: &str) -> Batch {
    let entry = |number| {
        Entry::Tool(Tool {
            turn: TurnId::FIRST,
            call: CallId(number),
            tool: bxcore::tool::ToolName::new("clock").unwrap(),
            outcome: CallOutcome::Ok,
            code: None,
            label: Label::OWNER,
            raw_bytes: ENTRY_BYTES as u64,
            message: RawMessage::tool("call-1", text),
            audit: None,
            cost: MicroUsd::ZERO,
        })
    };
    Batch::new(session.clone())
        .entry(entry(2 * call))
        .entry(entry(2 * call + 1))
        .op(Op::Settle(Settlement {
            call: ModelCallId(call),
            actual: spend(400),
            usage: Usage::default(),
            source: UsageSource::Reported,
        }))
        .op(reserve(session, call + 1))
}

/// Commits `commits` batches, shared out over the sessions; gives the time it took.
async fn commit_all(store: &Store, calls: &mut [(SessionId, u64)], commits: u64) -> Duration {
    let sessions = calls.len() as u64;
    let text = "x".repeat(ENTRY_BYTES);
    let begun = Instant::now();
    let mut tasks = Vec::new();
    for (n, (session, call)) in (0_u64..).zip(calls) {
        let share = commits / sessions + u64::from(n < commits % sessions);
        let (store, session, text) = (store.clone(), session.clone(), text.clone());
        let first_call = *call;
        *call += share;
        tasks.push(tokio::spawn(async move {
            for call in first_call..first_call + share {
                store.commit(next(&session, call, &text)).await.unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    begun.elapsed()
}

fn commits(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let mut group = criterion.benchmark_group("commits");
    group.throughput(Throughput::Elements(1));
    group.measurement_time(Duration::from_secs(8));
    for sessions in SESSIONS {
        let folder = folder();
        let (store, _) = Store::open(StoreOptions::in_folder(folder.path())).unwrap();
        let mut calls: Vec<(SessionId, u64)> = (0..sessions)
            .map(|n| (SessionId::new(format!("chat-{n}")).unwrap(), 1))
            .collect();
        runtime.block_on(async {
            for (session, _) in &calls {
                store.commit(first(session)).await.unwrap();
            }
        });
        group.bench_function(format!("{sessions} sessions"), |bencher| {
            bencher
                .iter_custom(|commits| runtime.block_on(commit_all(&store, &mut calls, commits)));
        });
        runtime.block_on(store.close());
    }
    group.finish();
}

criterion_group!(benches, commits);
criterion_main!(benches);
