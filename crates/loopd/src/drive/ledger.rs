//! From what a turn wants stored to a batch of the store, and back. Pure.

use crate::budget::{AccountKey, BudgetRefusal, Meter};
use crate::config::Guardrails;
use crate::store::{AccountSpec, Batch, Op, Reservation, Settlement};
use crate::turn::{Axis, Commit, Refusal};
use bxcore::id::SessionId;
use jiff::civil::Date;

/// The batch that stores what a turn wants stored, with the turn's place in the budget tree.
///
/// The tree of a session that nobody asked for: the day, and below it the turn.
pub(super) fn batch_of(
    session: &SessionId,
    commit: Commit,
    guardrails: &Guardrails,
    today: Date,
) -> Batch {
    let account = AccountKey::turn(session, commit.turn);
    let mut batch = Batch::new(session.clone());
    batch.entries = commit.entries;
    if commit.opens_turn {
        batch
            .ops
            .extend(open_turn(&account, commit.turn, guardrails, today));
    }
    if let Some(settle) = commit.settle {
        batch.ops.push(Op::Settle(Settlement {
            call: settle.model_call,
            actual: settle.actual,
            usage: settle.usage,
            source: settle.source,
        }));
    }
    batch
        .ops
        .extend(commit.release.map(|call| Op::Release { call }));
    if let Some(reserve) = commit.reserve {
        batch.ops.push(Op::Reserve(Reservation {
            account,
            call: reserve.model_call,
            amount: reserve.amount,
            backend: reserve.backend,
            model: reserve.model,
        }));
    }
    if commit.closes_turn {
        batch.ops.push(Op::CloseTurn { turn: commit.turn });
    }
    batch
}

fn open_turn(
    account: &AccountKey,
    turn: bxcore::id::TurnId,
    guardrails: &Guardrails,
    today: Date,
) -> [Op; 3] {
    let day = AccountKey::day(today);
    [
        Op::EnsureAccount(AccountSpec {
            key: day.clone(),
            parent: None,
            limits: guardrails.per_day(),
        }),
        Op::EnsureAccount(AccountSpec {
            key: account.clone(),
            parent: Some(day),
            limits: guardrails.per_turn(),
        }),
        Op::OpenTurn {
            turn,
            account: account.clone(),
        },
    ]
}

/// A refusal as a turn reads it.
pub(super) fn refusal_of(refusal: &BudgetRefusal) -> Refusal {
    Refusal {
        account: refusal.account.to_string(),
        axis: match refusal.which {
            Meter::Tokens => Axis::Tokens,
            Meter::Usd => Axis::Usd,
        },
        limit: refusal.limit,
        left: refusal.left(),
    }
}
