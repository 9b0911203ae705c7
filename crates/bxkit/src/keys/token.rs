//! Tokens and their hashes: who has a token can call, who has its hash can only check.

use bxcore::text::hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;
use subtle::ConstantTimeEq;

const TOKEN_BYTES: usize = 32;
const TOKEN_HEX_CHARS: usize = 2 * TOKEN_BYTES;

/// 256 random bits, written as 64 lower-case hex digits.
///
/// Shown by [`Token::expose`] alone; `Debug` hides it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Token(String);

/// Text that is not a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a token: it must be 64 lower-case hex digits")]
pub struct InvalidToken;

impl Token {
    /// A new token from the system's random source.
    ///
    /// # Errors
    /// The system has no random bytes to give.
    pub fn generate() -> Result<Self, getrandom::Error> {
        let mut bytes = [0_u8; TOKEN_BYTES];
        getrandom::fill(&mut bytes)?;
        Ok(Self(hex(&bytes)))
    }

    /// Reads a token as it is written in files and headers.
    pub fn parse(text: &str) -> Result<Self, InvalidToken> {
        if is_hex(text) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidToken)
        }
    }

    /// The token's text, for the one header or file that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// What a server keeps in place of the token.
    pub fn hash(&self) -> TokenHash {
        TokenHash::of(self.0.as_bytes())
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl TryFrom<String> for Token {
    type Error = InvalidToken;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        if is_hex(&text) {
            Ok(Self(text))
        } else {
            Err(InvalidToken)
        }
    }
}

impl From<Token> for String {
    fn from(token: Token) -> Self {
        token.0
    }
}

/// The SHA-256 of a token's text.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TokenHash([u8; TOKEN_BYTES]);

impl TokenHash {
    /// The hash of what a caller presented, token or not.
    pub fn of(presented: &[u8]) -> Self {
        Self(Sha256::digest(presented).into())
    }

    /// Whether two hashes are equal, in a time that doesn't depend on where they differ.
    pub fn matches(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenHash(…)")
    }
}

impl TryFrom<String> for TokenHash {
    type Error = InvalidToken;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        if !is_hex(&text) {
            return Err(InvalidToken);
        }
        let mut bytes = [0_u8; TOKEN_BYTES];
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            *byte = digit(pair[0]) << 4 | digit(pair[1]);
        }
        Ok(Self(bytes))
    }
}

impl From<TokenHash> for String {
    fn from(hash: TokenHash) -> Self {
        hex(&hash.0)
    }
}

fn is_hex(text: &str) -> bool {
    text.len() == TOKEN_HEX_CHARS
        && text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The value of a hex digit that [`is_hex`] has let through.
fn digit(byte: u8) -> u8 {
    match byte {
        b'0'..=b'9' => byte - b'0',
        _ => byte - b'a' + 10,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_differ_and_survive_their_text() {
        let (one, two) = (Token::generate().unwrap(), Token::generate().unwrap());
        assert_ne!(one, two);
        assert_eq!(Token::parse(one.expose()).unwrap(), one);
        assert!(one.hash().matches(&TokenHash::of(one.expose().as_bytes())));
        assert!(!one.hash().matches(&two.hash()));
    }

    #[test]
    fn a_hash_survives_json() {
        let token = Token::generate().unwrap();
        let json = serde_json::to_string(&token.hash()).unwrap();
        assert!(
            serde_json::from_str::<TokenHash>(&json)
                .unwrap()
                .matches(&token.hash())
        );
        assert!(!json.contains(token.expose()));
    }

    #[test]
    fn nothing_else_is_a_token() {
        let good = "0123456789abcdef".repeat(4);
        Token::parse(&good).unwrap();
        for bad in [
            "",
            "0",
            &good.to_uppercase(),
            &good[1..],
            &format!("{good}0"),
            &"é".repeat(32),
        ] {
            assert_eq!(Token::parse(bad), Err(InvalidToken), "{bad}");
            serde_json::from_value::<Token>(bad.into()).unwrap_err();
        }
    }

    #[test]
    fn debug_output_hides_token_and_hash() {
        let token = Token::generate().unwrap();
        let shown = format!("{token:?} {:?}", token.hash());
        assert_eq!(shown, "Token(…) TokenHash(…)");
    }
}
