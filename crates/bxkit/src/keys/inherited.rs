//! Keys as a role gets them: one line on its standard input, which stays open afterwards.
//!
//! The supervisor keeps the other end. When it closes, the supervisor is gone; the daemon shell
//! watches for that.

use super::ring::RoleKeys;
use bxcore::code::Code;
use bxcore::problem::Problem;
use std::io::{self, BufRead, IsTerminal, Read};

/// The longest line of keys.
pub const MAX_KEYS_BYTES: u64 = 64 * 1024;

/// Why no keys were read.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// Standard input is a terminal: nobody who hands out keys has started this.
    #[error("standard input is a terminal")]
    Terminal,
    /// Standard input can't be read.
    #[error("standard input can't be read")]
    Read(#[source] io::Error),
    /// It ended, or the limit was reached, before the line was complete.
    #[error("the line of keys is cut off or too long")]
    Cut,
    /// The line is not what a supervisor writes.
    #[error("the line of keys can't be understood")]
    Garbled(#[source] serde_json::Error),
}

impl From<KeysError> for Problem {
    fn from(error: KeysError) -> Self {
        Self::new(
            Code::NotAuthorised,
            "The role got no keys from a supervisor",
        )
        .detail(crate::report::chain(&error))
        .hint("roles are started by `boxmaker up`, not by hand")
    }
}

/// Reads the role's keys from standard input; blocks until they are there.
pub fn read_keys_from_stdin() -> Result<RoleKeys, KeysError> {
    let stdin = io::stdin();
    if stdin.is_terminal() {
        return Err(KeysError::Terminal);
    }
    read_keys(&mut stdin.lock())
}

/// Reads one line of keys and nothing behind it.
pub fn read_keys(input: &mut impl BufRead) -> Result<RoleKeys, KeysError> {
    let mut line = Vec::new();
    input
        .take(MAX_KEYS_BYTES)
        .read_until(b'\n', &mut line)
        .map_err(KeysError::Read)?;
    if line.last() != Some(&b'\n') {
        return Err(KeysError::Cut);
    }
    serde_json::from_slice(&line).map_err(|error| KeysError::Garbled(without_values(&error)))
}

/// The error without the text it quotes, which may be a token.
fn without_values(error: &serde_json::Error) -> serde_json::Error {
    let place = format!("line {} column {}", error.line(), error.column());
    serde::de::Error::custom(format!("{:?} error at {place}", error.classify()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::KeyRing;
    use bxcore::role::Role;

    #[test]
    fn keys_are_read_from_one_line() {
        let keys = KeyRing::generate().unwrap().for_role(Role::Loopd, None);
        let mut input = serde_json::to_vec(&keys).unwrap();
        input.extend(b"\nrest");
        let mut reader = io::Cursor::new(input);
        let read = read_keys(&mut reader).unwrap();
        assert_eq!(read.me, Role::Loopd);
        assert_eq!(read.call, keys.call);
        let mut rest = String::new();
        reader.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "rest");
    }

    #[test]
    fn anything_else_is_refused_without_being_quoted() {
        let check = |input: &[u8], expect: &str| {
            let error = read_keys(&mut io::Cursor::new(input)).unwrap_err();
            let text = crate::report::chain(&error);
            assert!(text.contains(expect), "{text}");
            assert!(!text.contains("s3cret"), "{text}");
        };
        check(b"", "cut off");
        check(b"{\"me\":\"loopd\"", "cut off");
        check(&vec![b'x'; 70_000], "cut off");
        check(b"{}\n", "can't be understood");
        check(
            b"{\"me\":\"loopd\",\"serve\":[],\"call\":[[\"brokerd\",\"s3cret\"]]}\n",
            "understood",
        );
        check(
            b"{\"me\":\"s3cret\",\"serve\":[],\"call\":[]}\n",
            "understood",
        );
    }
}
