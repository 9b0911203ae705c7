//! From what a turn wants stored to a batch of the store, and back. Pure.

use crate::budget::{AccountKey, BudgetRefusal, Meter};
use crate::config::Guardrails;
use crate::delegation::Standing;
use crate::store::{AccountSpec, Batch, Op, Reservation, Settlement};
use crate::turn::{Axis, Commit, Payer, Refusal};
use bxcore::guardrails::Limits;
use jiff::civil::Date;

/// The batch that stores what a turn wants stored, with the turn's place in the budget tree.
///
/// The tree of a session that nobody asked for: the day, and below it the turn. A child's turn is
/// below the turn that asked for it, and limited by all above: what these have left is what it has.
pub(super) fn batch_of(
    standing: &Standing,
    commit: Commit,
    guardrails: &Guardrails,
    today: Date,
) -> Batch {
    let session = &standing.session;
    let account = match commit.payer {
        Payer::Turn => AccountKey::turn(session, commit.turn),
        Payer::Call(call) => AccountKey::call(session, call),
    };
    let mut batch = Batch::new(session.clone());
    batch.entries = commit.entries;
    if commit.opens_turn {
        batch.ops.extend(match standing.paid_by() {
            None => open_root(&account, guardrails, today),
            Some(above) => vec![account_below(&account, above, Limits::default())],
        });
        batch.ops.push(Op::OpenTurn {
            turn: commit.turn,
            account: account.clone(),
        });
    }
    if let (Payer::Call(_), Some(_)) = (commit.payer, &commit.reserve) {
        batch.ops.extend(open_root(&account, guardrails, today));
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

fn open_root(account: &AccountKey, guardrails: &Guardrails, today: Date) -> Vec<Op> {
    let day = AccountKey::day(today);
    let whole_day = Op::EnsureAccount(AccountSpec {
        key: day.clone(),
        parent: None,
        limits: guardrails.per_day(),
    });
    vec![
        whole_day,
        account_below(account, day, guardrails.per_turn()),
    ]
}

fn account_below(account: &AccountKey, above: AccountKey, limits: Limits) -> Op {
    Op::EnsureAccount(AccountSpec {
        key: account.clone(),
        parent: Some(above),
        limits,
    })
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
