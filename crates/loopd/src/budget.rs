//! The budget tree: what may be spent, what is held for calls under way, what was spent.
//!
//! Pure arithmetic over a chain of accounts; reading and writing them is the store's part.

mod account;
mod arithmetic;
mod key;
mod refusal;

pub use account::{Account, MAX_AMOUNT, Meter};
pub use arithmetic::{Node, left, release, reserve, settle};
pub use key::{AccountKey, InvalidAccountKey, MAX_ACCOUNT_KEY_BYTES};
pub use refusal::{Bound, BudgetRefusal};

/// How many accounts a chain may have, the root included.
pub const MAX_ACCOUNT_DEPTH: usize = 16;
