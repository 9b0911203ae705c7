//! All tokens of one running Boxmaker, and the part of them that each role gets.

use super::caller::Caller;
use super::token::{Token, TokenHash};
use bxcore::role::Role;
use serde::{Deserialize, Serialize};

/// Which role calls which; there is a token for each of these pairs and for no other.
pub const CALLS: &[(Role, Role)] = &[
    (Role::Loopd, Role::Inferproxy),
    (Role::Loopd, Role::Brokerd),
    (Role::Loopd, Role::Memoryd),
    (Role::Brokerd, Role::Memoryd),
];

/// What a role needs to know to be called and to call.
///
/// It gets hashes of its callers' tokens, never the tokens: a role can't pass for its callers.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoleKeys {
    /// The role these keys are for.
    pub me: Role,
    /// Who may call it, by the hash of their token.
    pub serve: Vec<(Caller, TokenHash)>,
    /// Whom it may call, with its token for each.
    pub call: Vec<(Role, Token)>,
    /// The starter engine, where it runs and the role may use it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starter: Option<StarterAddress>,
}

impl RoleKeys {
    /// The token with which this role calls another, if it may.
    pub fn token_for(&self, role: Role) -> Option<&Token> {
        self.call
            .iter()
            .find(|(callee, _)| *callee == role)
            .map(|(_, token)| token)
    }
}

/// Where the starter engine listens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StarterAddress {
    /// Its base address, `http://127.0.0.1:PORT`.
    pub url: String,
    /// What it wants in the authorization header.
    pub api_key: Token,
}

/// All tokens of one running Boxmaker; only the supervisor has it.
#[derive(Debug, Clone)]
pub struct KeyRing {
    pairs: Vec<(Role, Role, Token)>,
    owner: Token,
}

impl KeyRing {
    /// New tokens for every pair of [`CALLS`] and for the owner.
    ///
    /// # Errors
    /// The system has no random bytes to give.
    pub fn generate() -> Result<Self, getrandom::Error> {
        let pairs = CALLS
            .iter()
            .map(|(caller, callee)| Ok((*caller, *callee, Token::generate()?)))
            .collect::<Result<_, getrandom::Error>>()?;
        Ok(Self {
            pairs,
            owner: Token::generate()?,
        })
    }

    /// The owner's token, which every role and the supervisor admit.
    pub fn owner(&self) -> &Token {
        &self.owner
    }

    /// What one role gets to know.
    ///
    /// The starter engine's address goes to inferproxy alone, whatever is given for other roles.
    pub fn for_role(&self, role: Role, starter: Option<StarterAddress>) -> RoleKeys {
        let callers = self.pairs.iter().filter(|(_, callee, _)| *callee == role);
        let mut serve: Vec<_> = callers
            .map(|(caller, _, token)| (Caller::Role(*caller), token.hash()))
            .collect();
        serve.push((Caller::Owner, self.owner.hash()));
        let callees = self.pairs.iter().filter(|(caller, _, _)| *caller == role);
        RoleKeys {
            me: role,
            serve,
            call: callees
                .map(|(_, callee, token)| (*callee, token.clone()))
                .collect(),
            starter: starter.filter(|_| role == Role::Inferproxy),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_each_pair_fit_and_no_other() {
        let ring = KeyRing::generate().unwrap();
        for caller in Role::ALL {
            for callee in Role::ALL {
                let calls = ring.for_role(caller, None);
                let token = calls.token_for(callee);
                assert_eq!(
                    token.is_some(),
                    CALLS.contains(&(caller, callee)),
                    "{caller} {callee}"
                );
                let Some(token) = token else { continue };
                let admitted: Vec<_> = ring
                    .for_role(callee, None)
                    .serve
                    .into_iter()
                    .filter(|(_, hash)| hash.matches(&token.hash()))
                    .map(|(caller, _)| caller)
                    .collect();
                assert_eq!(admitted, [Caller::Role(caller)]);
            }
        }
    }

    #[test]
    fn no_role_learns_a_token_that_others_call_it_with() {
        let ring = KeyRing::generate().unwrap();
        for role in Role::ALL {
            let keys = serde_json::to_string(&ring.for_role(role, None)).unwrap();
            assert!(
                !keys.contains(ring.owner().expose()),
                "{role} has the owner's token"
            );
            for (caller, _, token) in &ring.pairs {
                assert!(
                    *caller == role || !keys.contains(token.expose()),
                    "{role} has {caller}'s"
                );
            }
        }
    }

    #[test]
    fn the_starter_goes_to_inferproxy_alone() {
        let ring = KeyRing::generate().unwrap();
        let starter = StarterAddress {
            url: "http://127.0.0.1:1".into(),
            api_key: Token::generate().unwrap(),
        };
        for role in Role::ALL {
            let got = ring.for_role(role, Some(starter.clone())).starter;
            assert_eq!(got.is_some(), role == Role::Inferproxy);
        }
    }
}
