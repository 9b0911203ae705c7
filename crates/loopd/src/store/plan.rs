//! Decides what a batch changes. Pure: reads a view, gives changes, touches nothing.

use super::batch::{
    AccountSpec, Batch, BatchError, MAX_BATCH_ENTRIES, MAX_BATCH_OPS, MAX_LINE_BYTES, Op,
    Reservation, Settlement,
};
use super::state::{CallKey, Changes, Head, Held, Layer, Row, Stored, View};
use super::views::LedgerRow;
use crate::budget::{
    Account, AccountKey, BudgetRefusal, MAX_ACCOUNT_DEPTH, release, reserve, settle,
};
use crate::session::encode;
use bxcore::id::{ModelCallId, SessionId, TurnId};
use bxcore::transcript::{Entry, Line, TRANSCRIPT_VERSION};
use bxcore::usage::{Usage, UsageSource};
use std::sync::Arc;

/// How many model calls may be under way at once, over all sessions.
const MAX_HELD_CALLS: usize = 65_536;

/// What a batch changes and what its maker is told.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) changes: Changes,
    pub(super) lines: Vec<Line>,
    pub(super) reserved: Option<Result<(), BudgetRefusal>>,
    /// What the session's file gets, and where it goes.
    pub(super) text: Arc<str>,
    pub(super) first_byte: u64,
}

/// Plans a batch whose session, accounts and chains are in the view.
pub(super) fn plan(
    view: &dyn View,
    head: Head,
    batch: &Batch,
    ts: &str,
) -> Result<Plan, BatchError> {
    if batch.entries.len() > MAX_BATCH_ENTRIES || batch.ops.len() > MAX_BATCH_OPS {
        return Err(BatchError::TooMany);
    }
    let first_byte = head.bytes;
    let mut planning = Planning {
        session: &batch.session,
        ts,
        head,
        layer: Layer::over(view),
        reserved: None,
    };
    let (lines, text) = planning.append(&batch.entries)?;
    for op in &batch.ops {
        planning.perform(op)?;
    }
    let Planning {
        head,
        mut layer,
        reserved,
        ..
    } = planning;
    layer.set_head(batch.session.clone(), head);
    Ok(Plan {
        changes: layer.into_changes(),
        lines,
        reserved,
        text,
        first_byte,
    })
}

/// Plans the charge of calls whose end was never seen.
pub(super) fn plan_lost(
    view: &dyn View,
    calls: &[CallKey],
    ts: &str,
) -> Result<Changes, BatchError> {
    let mut layer = Layer::over(view);
    for (session, call) in calls {
        let (_, held) = held(&layer, session, *call)?;
        let lost = Settlement {
            call: *call,
            actual: held.amount,
            // As a turn counts a call that it lost itself, so that reports and ledger agree.
            usage: Usage {
                model_calls: 1,
                prompt_tokens: held.amount.tokens,
                ..Usage::default()
            },
            source: UsageSource::Lost,
        };
        charge(&mut layer, session, &lost, ts)?;
    }
    Ok(layer.into_changes())
}

struct Planning<'a> {
    session: &'a SessionId,
    ts: &'a str,
    head: Head,
    layer: Layer<'a>,
    reserved: Option<Result<(), BudgetRefusal>>,
}

impl Planning<'_> {
    fn append(&mut self, entries: &[Entry]) -> Result<(Vec<Line>, Arc<str>), BatchError> {
        let mut lines = Vec::with_capacity(entries.len());
        let mut text = String::new();
        for entry in entries {
            let n = self.head.summary.last_n + 1;
            match entry {
                Entry::Open(open) if n == 1 && open.session == *self.session => {}
                Entry::Open(_) => return Err(BatchError::Opening),
                _ if n == 1 => return Err(BatchError::Opening),
                _ => {}
            }
            let line = Line {
                v: TRANSCRIPT_VERSION,
                n,
                ts: self.ts.to_owned(),
                entry: entry.clone(),
            };
            let encoded = encode(&line).ok_or(BatchError::NotOneLine)?;
            if encoded.len() > MAX_LINE_BYTES {
                return Err(BatchError::LineTooLong(encoded.len()));
            }
            text.push_str(&encoded);
            self.head.summary.add(&line);
            lines.push(line);
        }
        // Nothing can happen in a session that was never opened.
        if self.head.summary.last_n == 0 {
            return Err(BatchError::Opening);
        }
        let text: Arc<str> = text.into();
        if !text.is_empty() {
            self.layer.push(Row::Journal {
                session: self.head.row,
                first_byte: self.head.bytes,
                text: Arc::clone(&text),
            });
        }
        self.head.bytes += text.len() as u64;
        Ok((lines, text))
    }

    fn perform(&mut self, op: &Op) -> Result<(), BatchError> {
        match op {
            Op::OpenTurn { turn, account } => self.open_turn(*turn, account),
            Op::CloseTurn { turn } => self.close_turn(*turn),
            Op::EnsureAccount(spec) => self.ensure(spec),
            Op::Reserve(reservation) => self.reserve(reservation),
            Op::Settle(settlement) => charge(&mut self.layer, self.session, settlement, self.ts),
            Op::Release { call } => self.release(*call),
        }
    }

    fn open_turn(&mut self, turn: TurnId, key: &AccountKey) -> Result<(), BatchError> {
        if self.head.summary.open_turn != Some(turn) {
            return Err(BatchError::OtherTurn(turn));
        }
        if self.layer.account(key).is_none() {
            return Err(BatchError::NoAccount(key.clone()));
        }
        self.head.account = Some(key.clone());
        Ok(())
    }

    fn close_turn(&mut self, turn: TurnId) -> Result<(), BatchError> {
        if self.head.summary.open_turn.is_some() {
            return Err(BatchError::TurnNotEnded(turn));
        }
        if self.head.summary.turn != turn {
            return Err(BatchError::OtherTurn(turn));
        }
        self.head.account = None;
        Ok(())
    }

    fn ensure(&mut self, spec: &AccountSpec) -> Result<(), BatchError> {
        let AccountSpec {
            key,
            parent,
            limits,
        } = spec;
        let stored = match self.layer.account(key).cloned() {
            Some(stored) if stored.parent == *parent => Stored {
                account: Account {
                    limits: *limits,
                    ..stored.account
                },
                ..stored
            },
            Some(_) => return Err(BatchError::OtherParent(key.clone())),
            None => Stored {
                parent: parent.clone(),
                depth: self.depth_below(parent.as_ref(), key)?,
                account: Account::new(*limits),
            },
        };
        self.layer.set_account(key.clone(), stored);
        Ok(())
    }

    fn depth_below(
        &self,
        parent: Option<&AccountKey>,
        key: &AccountKey,
    ) -> Result<usize, BatchError> {
        let Some(parent) = parent else { return Ok(1) };
        let above = self.layer.account(parent);
        let above = above.ok_or_else(|| BatchError::NoAccount(parent.clone()))?;
        if above.depth >= MAX_ACCOUNT_DEPTH {
            return Err(BatchError::TooDeep(key.clone()));
        }
        Ok(above.depth + 1)
    }

    fn reserve(&mut self, wanted: &Reservation) -> Result<(), BatchError> {
        if self.reserved.is_some() {
            return Err(BatchError::TwoReservations);
        }
        if wanted.call <= self.head.summary.model_call {
            return Err(BatchError::CallUsed(wanted.call));
        }
        if self.layer.held_calls() >= MAX_HELD_CALLS {
            return Err(BatchError::TooManyCalls);
        }
        let chain = self.layer.chain(&wanted.account);
        let mut chain = chain.ok_or_else(|| BatchError::NoAccount(wanted.account.clone()))?;
        let outcome = reserve(&mut chain, wanted.amount);
        if outcome.is_ok() {
            self.layer.set_chain(chain);
            self.head.summary.model_call = wanted.call;
            let held = Held {
                account: wanted.account.clone(),
                turn: self.head.summary.open_turn,
                amount: wanted.amount,
                backend: wanted.backend.clone(),
                model: wanted.model.clone(),
            };
            self.layer.hold((self.session.clone(), wanted.call), held);
        }
        self.reserved = Some(outcome);
        Ok(())
    }

    fn release(&mut self, call: ModelCallId) -> Result<(), BatchError> {
        let (key, held) = held(&self.layer, self.session, call)?;
        let mut chain = chain_of(&self.layer, &held)?;
        release(&mut chain, held.amount);
        self.layer.set_chain(chain);
        self.layer.let_go(key);
        Ok(())
    }
}

fn charge(
    layer: &mut Layer<'_>,
    session: &SessionId,
    settlement: &Settlement,
    ts: &str,
) -> Result<(), BatchError> {
    let (key, held) = held(layer, session, settlement.call)?;
    let charged = match settlement.source {
        UsageSource::Lost => held.amount,
        UsageSource::Reported | UsageSource::Estimated => settlement.actual,
    };
    let mut chain = chain_of(layer, &held)?;
    let overrun = settle(&mut chain, held.amount, charged).is_some();
    layer.set_chain(chain);
    layer.let_go(key);
    layer.push(Row::Charge(LedgerRow {
        session: session.clone(),
        call: settlement.call,
        turn: held.turn,
        account: held.account.to_string(),
        backend: held.backend,
        model: held.model,
        charged,
        usage: settlement.usage,
        source: settlement.source,
        overrun,
        ts: ts.to_owned(),
    }));
    Ok(())
}

fn held(
    layer: &Layer<'_>,
    session: &SessionId,
    call: ModelCallId,
) -> Result<(CallKey, Held), BatchError> {
    let key = (session.clone(), call);
    match layer.held(&key).cloned() {
        Some(held) => Ok((key, held)),
        None => Err(BatchError::NotReserved(call)),
    }
}

fn chain_of(layer: &Layer<'_>, held: &Held) -> Result<Vec<crate::budget::Node>, BatchError> {
    let chain = layer.chain(&held.account);
    chain.ok_or_else(|| BatchError::NoAccount(held.account.clone()))
}
