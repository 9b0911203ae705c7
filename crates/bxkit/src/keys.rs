//! Role tokens: how one role knows which role calls it.

mod caller;
mod inherited;
mod ring;
mod token;

pub use caller::{Caller, UnknownCaller};
pub use inherited::{KeysError, MAX_KEYS_BYTES, read_keys, read_keys_from_stdin};
pub use ring::{CALLS, KeyRing, RoleKeys, StarterAddress};
pub use token::{InvalidToken, Token, TokenHash};
