//! The names of accounts.

use bxcore::id::{ModelCallId, SessionId, TurnId};
use std::fmt;

/// The longest name of an account, in bytes.
pub const MAX_ACCOUNT_KEY_BYTES: usize = 128;

/// The name of an account: printable ASCII without spaces, such as `turn:chat-1:3`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountKey(String);

/// A text that can't name an account.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` does not name an account: it must be 1 to {MAX_ACCOUNT_KEY_BYTES} visible ASCII characters"
)]
pub struct InvalidAccountKey(String);

impl AccountKey {
    /// Checks the rule and builds the key.
    pub fn new(text: impl Into<String>) -> Result<Self, InvalidAccountKey> {
        let text = text.into();
        let fits = (1..=MAX_ACCOUNT_KEY_BYTES).contains(&text.len());
        if fits && text.bytes().all(|b| b.is_ascii_graphic()) {
            Ok(Self(text))
        } else {
            Err(InvalidAccountKey(text.chars().take(80).collect()))
        }
    }

    /// The account of everything that is spent on one day.
    pub fn day(date: jiff::civil::Date) -> Self {
        Self(format!("day:{date}"))
    }

    /// The account of one turn.
    pub fn turn(session: &SessionId, turn: TurnId) -> Self {
        Self(format!("turn:{session}:{turn}"))
    }

    /// The account of one model call that no turn makes: a summary that a person asked for.
    pub fn call(session: &SessionId, call: ModelCallId) -> Self {
        Self(format!("call:{session}:{call}"))
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AccountKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
