//! Many calls at once on one account.

use crate::support::*;
use bxcore::guardrails::Limits;
use bxcore::money::MicroUsd;
use loopd::budget::Bound;
use loopd::store::{Batch, Store};

/// Reserves for a call of a session of its own; says whether it was admitted.
async fn call(store: Store, n: u64) -> bool {
    let session = id(&format!("chat-{n}"));
    let account = format!("turn:chat-{n}:1");
    let batch = Batch::new(session.clone())
        .entry(open(&session))
        .op(ensure(&account, Some("day"), Limits::default()))
        .op(reserve(&account, 1, spend(100, 0)));
    let committed = store.commit(batch).await.unwrap();
    match committed.reserved.unwrap() {
        Ok(()) => true,
        Err(refusal) => {
            assert_eq!((refusal.account, refusal.bound), (key("day"), Bound::Limit));
            false
        }
    }
}

async fn calls_at_once(store: &Store, numbers: std::ops::Range<u64>) -> usize {
    let mut tasks = tokio::task::JoinSet::new();
    for n in numbers {
        tasks.spawn(call(store.clone(), n));
    }
    let mut admitted = 0;
    while let Some(done) = tasks.join_next().await {
        admitted += usize::from(done.unwrap());
    }
    admitted
}

/// Room for ten calls, settlements held back: ten of two hundred are admitted. What they settle to
/// makes room for exactly so many more.
#[test]
fn two_hundred_calls_on_room_for_ten_are_ten() {
    let folder = Folder::new();
    block_on(async {
        let (store, _) = folder.open();
        let first = id("first");
        let day =
            Batch::new(first.clone())
                .entry(open(&first))
                .op(ensure("day", None, tokens(1_099)));
        store.commit(day).await.unwrap();
        assert_eq!(calls_at_once(&store, 0..200).await, 10);
        assert_eq!(
            spent_and_held(&store, "day").await,
            (spend(0, 0), spend(1_000, 0))
        );
        let refused = calls_at_once(&store, 200..220).await;
        assert_eq!(refused, 0);

        let mut held = Vec::new();
        for n in 0..200 {
            let account = format!("turn:chat-{n}:1");
            if spent_and_held(&store, &account).await.1.tokens > 0 {
                held.push(id(&format!("chat-{n}")));
            }
        }
        assert_eq!(held.len(), 10);
        for session in &held {
            let batch = Batch::new(session.clone()).op(settle(1, spend(50, 0)));
            store.commit(batch).await.unwrap();
        }
        assert_eq!(calls_at_once(&store, 300..400).await, 5);
        assert_eq!(
            spent_and_held(&store, "day").await,
            (spend(500, 0), spend(500, 0))
        );
    });
}

#[test]
fn a_call_that_costs_more_than_was_held_is_charged_whole_and_stops_its_account() {
    let folder = Folder::new();
    block_on(async {
        let (store, _) = folder.open();
        let session = id("chat-1");
        let dollar = Limits {
            tokens: None,
            usd: Some(MicroUsd::from_micros(1_000_000).unwrap()),
        };
        let batch = Batch::new(session.clone())
            .entry(open(&session))
            .op(ensure("day", None, dollar))
            .op(ensure("turn", Some("day"), Limits::default()))
            .op(reserve("turn", 1, spend(10, 400_000)));
        assert_eq!(store.commit(batch).await.unwrap().reserved, Some(Ok(())));
        let dear = Batch::new(session.clone()).op(settle(1, spend(10, 700_000)));
        store.commit(dear).await.unwrap();
        assert!(store.ledger(&session).await.unwrap()[0].overrun);
        assert_eq!(spent_and_held(&store, "day").await.0, spend(10, 700_000));

        let next = Batch::new(session.clone()).op(reserve("turn", 2, spend(0, 1)));
        let refusal = store
            .commit(next)
            .await
            .unwrap()
            .reserved
            .unwrap()
            .unwrap_err();
        insta::assert_snapshot!(refusal, @"account `turn` is stopped: a call cost more micro-dollars than were held for it (700000 are spent)");
        // The day goes on within its limit, for others.
        let other = Batch::new(session.clone())
            .op(ensure("other", Some("day"), Limits::default()))
            .op(reserve("other", 3, spend(1, 200_000)));
        assert_eq!(store.commit(other).await.unwrap().reserved, Some(Ok(())));
        // The stop survives a restart.
        store.close().await;
        let (store, _) = folder.open();
        let next = Batch::new(session.clone()).op(reserve("turn", 4, spend(0, 1)));
        let refusal = store
            .commit(next)
            .await
            .unwrap()
            .reserved
            .unwrap()
            .unwrap_err();
        assert_eq!(refusal.bound, Bound::Overrun);
        // What costs nothing is no matter of money.
        let free = Batch::new(session).op(reserve("turn", 5, spend(10, 0)));
        assert_eq!(store.commit(free).await.unwrap().reserved, Some(Ok(())));
    });
}

#[test]
fn an_owner_who_lowers_a_limit_stops_what_follows() {
    let folder = Folder::new();
    block_on(async {
        let (store, _) = folder.open();
        let session = one_turn(&store, "chat-1").await;
        let lower = Batch::new(session.clone())
            .op(ensure("day", None, tokens(30)))
            .op(reserve("day", 2, spend(0, 0)));
        let refusal = store
            .commit(lower)
            .await
            .unwrap()
            .reserved
            .unwrap()
            .unwrap_err();
        assert_eq!((refusal.limit, refusal.spent, refusal.left()), (30, 42, 0));
        let higher = Batch::new(session)
            .op(ensure("day", None, tokens(50)))
            .op(reserve("day", 2, spend(8, 0)));
        assert_eq!(store.commit(higher).await.unwrap().reserved, Some(Ok(())));
    });
}
