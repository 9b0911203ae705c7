//! What the writer keeps in memory, and changes to it that are not committed yet.
//!
//! [`State`] mirrors rows that are on the disk; a [`Layer`] holds changes on top of it. A failed
//! commit drops its layer, so memory and disk can't part. Nothing here does I/O.

use crate::budget::{Account, AccountKey, MAX_ACCOUNT_DEPTH, Node};
use crate::session::Summary;
use bxcore::id::{BackendName, ModelCallId, SessionId, TurnId};
use bxcore::usage::Spend;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::views::LedgerRow;

/// How many sessions' heads are kept; more are read again when needed.
const MAX_CACHED_HEADS: usize = 4096;
/// How many accounts without a reservation are kept; more are read again when needed.
const MAX_CACHED_ACCOUNTS: usize = 4096;

/// A session's row in the index, and how long its transcript is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Head {
    /// The number of its row.
    pub(super) row: i64,
    /// What the index says.
    pub(super) summary: Summary,
    /// The length of the transcript with everything committed, in bytes.
    pub(super) bytes: u64,
    /// What the open turn is paid from.
    pub(super) account: Option<AccountKey>,
}

/// An account's row, and what is held on it now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stored {
    /// The account above it.
    pub(super) parent: Option<AccountKey>,
    /// How many accounts its chain has, itself included.
    pub(super) depth: usize,
    /// Its figures. What is reserved is not stored: it is the sum of the reservations below.
    pub(super) account: Account,
}

impl Stored {
    /// Whether both are the same row: all but what is reserved.
    pub(super) fn same_row(&self, other: &Self) -> bool {
        let spent_only = |stored: &Self| Self {
            account: Account {
                reserved: Spend::default(),
                ..stored.account
            },
            ..stored.clone()
        };
        spent_only(self) == spent_only(other)
    }
}

/// What is held for a call under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) account: AccountKey,
    pub(super) turn: Option<TurnId>,
    pub(super) amount: Spend,
    pub(super) backend: BackendName,
    pub(super) model: String,
}

/// A session and its number for a model call.
pub(super) type CallKey = (SessionId, ModelCallId);

/// Something to look things up in.
pub(super) trait View {
    fn head(&self, session: &SessionId) -> Option<&Head>;
    fn account(&self, key: &AccountKey) -> Option<&Stored>;
    fn held(&self, call: &CallKey) -> Option<&Held>;
    /// How many calls something is held for, at most.
    fn held_calls(&self) -> usize;

    /// The chain that ends in an account, from its root; `None` if a link is missing.
    fn chain(&self, key: &AccountKey) -> Option<Vec<Node>> {
        let mut chain = Vec::new();
        let mut next = Some(key.clone());
        while let Some(key) = next.take() {
            let stored = self.account(&key)?;
            if chain.len() == MAX_ACCOUNT_DEPTH {
                return None;
            }
            let account = stored.account;
            next.clone_from(&stored.parent);
            chain.push(Node { key, account });
        }
        chain.reverse();
        Some(chain)
    }
}

/// What is on the disk, as far as it was needed lately.
#[derive(Debug, Default)]
pub(super) struct State {
    heads: HashMap<SessionId, Head>,
    accounts: HashMap<AccountKey, Stored>,
    held: HashMap<CallKey, Held>,
}

impl State {
    /// Takes in a row that was read.
    pub(super) fn know_head(&mut self, session: SessionId, head: Head) {
        self.heads.insert(session, head);
    }

    /// Takes in a row that was read.
    pub(super) fn know_account(&mut self, key: AccountKey, stored: Stored) {
        self.accounts.insert(key, stored);
    }

    /// Forgets a session, which is then read anew.
    pub(super) fn forget_head(&mut self, session: &SessionId) {
        self.heads.remove(session);
    }

    /// Takes up a reservation that the process before this one made, with its chain.
    pub(super) fn hold_again(&mut self, call: CallKey, held: Held) {
        let chain = self.chain(&held.account).unwrap_or_default();
        for Node { key, .. } in chain {
            if let Some(stored) = self.accounts.get_mut(&key) {
                stored.account.reserved = stored.account.reserved.plus(held.amount);
            }
        }
        self.held.insert(call, held);
    }

    /// Takes over what was committed.
    pub(super) fn absorb(&mut self, changes: Changes) {
        self.heads.extend(changes.heads);
        self.accounts.extend(changes.accounts);
        for (call, held) in changes.held {
            match held {
                Some(held) => self.held.insert(call, held),
                None => self.held.remove(&call),
            };
        }
        self.trim();
    }

    /// The calls of a session that something is held for.
    pub(super) fn is_busy(&self, session: &SessionId) -> bool {
        self.held.keys().any(|(holder, _)| holder == session)
    }

    fn trim(&mut self) {
        if self.heads.len() > MAX_CACHED_HEADS {
            self.heads.clear();
        }
        if self.accounts.len() > MAX_CACHED_ACCOUNTS {
            // What is held is in no row; accounts above one that holds something hold it too.
            self.accounts
                .retain(|_, stored| stored.account.reserved != Spend::default());
        }
    }
}

impl View for State {
    fn head(&self, session: &SessionId) -> Option<&Head> {
        self.heads.get(session)
    }

    fn account(&self, key: &AccountKey) -> Option<&Stored> {
        self.accounts.get(key)
    }

    fn held(&self, call: &CallKey) -> Option<&Held> {
        self.held.get(call)
    }

    fn held_calls(&self) -> usize {
        self.held.len()
    }
}

/// A row to insert or delete.
#[derive(Debug)]
pub(super) enum Row {
    /// Lines of a transcript that its file may not have yet.
    Journal {
        session: i64,
        first_byte: u64,
        text: Arc<str>,
    },
    /// Something is held for a call.
    Reserve(CallKey, Held),
    /// Nothing is held for a call any more.
    Unreserve(CallKey),
    /// A call was charged.
    Charge(LedgerRow),
}

/// Changes that are not committed yet.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) heads: HashMap<SessionId, Head>,
    pub(super) accounts: BTreeMap<AccountKey, Stored>,
    pub(super) held: HashMap<CallKey, Option<Held>>,
    pub(super) rows: Vec<Row>,
}

impl Changes {
    /// Adds later changes.
    pub(super) fn absorb(&mut self, later: Self) {
        self.heads.extend(later.heads);
        self.accounts.extend(later.accounts);
        self.held.extend(later.held);
        self.rows.extend(later.rows);
    }
}

/// Changes on top of something else.
pub(super) struct Layer<'a> {
    below: &'a dyn View,
    changes: Changes,
}

impl<'a> Layer<'a> {
    pub(super) fn over(below: &'a dyn View) -> Self {
        Self {
            below,
            changes: Changes::default(),
        }
    }

    pub(super) fn absorb(&mut self, later: Changes) {
        self.changes.absorb(later);
    }

    pub(super) fn into_changes(self) -> Changes {
        self.changes
    }

    pub(super) fn set_head(&mut self, session: SessionId, head: Head) {
        self.changes.heads.insert(session, head);
    }

    pub(super) fn set_account(&mut self, key: AccountKey, stored: Stored) {
        self.changes.accounts.insert(key, stored);
    }

    /// Writes a chain's figures back.
    pub(super) fn set_chain(&mut self, chain: Vec<Node>) {
        for Node { key, account } in chain {
            if let Some(stored) = self.account(&key).cloned() {
                self.set_account(key, Stored { account, ..stored });
            }
        }
    }

    pub(super) fn hold(&mut self, call: CallKey, held: Held) {
        self.changes.held.insert(call.clone(), Some(held.clone()));
        self.changes.rows.push(Row::Reserve(call, held));
    }

    pub(super) fn let_go(&mut self, call: CallKey) {
        self.changes.held.insert(call.clone(), None);
        self.changes.rows.push(Row::Unreserve(call));
    }

    pub(super) fn push(&mut self, row: Row) {
        self.changes.rows.push(row);
    }
}

impl View for Layer<'_> {
    fn head(&self, session: &SessionId) -> Option<&Head> {
        let changed = self.changes.heads.get(session);
        changed.or_else(|| self.below.head(session))
    }

    fn account(&self, key: &AccountKey) -> Option<&Stored> {
        let changed = self.changes.accounts.get(key);
        changed.or_else(|| self.below.account(key))
    }

    fn held(&self, call: &CallKey) -> Option<&Held> {
        match self.changes.held.get(call) {
            Some(changed) => changed.as_ref(),
            None => self.below.held(call),
        }
    }

    fn held_calls(&self) -> usize {
        // An upper bound: a call that is let go in the same group still counts.
        self.below.held_calls() + self.changes.held.len()
    }
}
