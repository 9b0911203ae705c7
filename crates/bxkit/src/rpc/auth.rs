//! Who calls, shown by a token. Pure.

use super::api_error::ApiError;
use crate::keys::{Caller, RoleKeys, Token, TokenHash};
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use bxcore::code::Code;
use bxcore::problem::Problem;
use std::sync::Arc;

/// Who may call a server.
#[derive(Debug, Clone)]
pub struct ServerAuth {
    callers: Arc<[(Caller, TokenHash)]>,
}

impl ServerAuth {
    /// The callers that a role's keys name.
    pub fn from_keys(keys: &RoleKeys) -> Self {
        Self {
            callers: keys.serve.clone().into(),
        }
    }

    /// The owner alone, as for the supervisor.
    pub fn owner_only(token: &Token) -> Self {
        Self {
            callers: [(Caller::Owner, token.hash())].into(),
        }
    }

    /// Who presents the token of these headers.
    ///
    /// # Errors
    /// There is no such header, or more than one, or nobody has this token.
    pub(super) fn check(&self, headers: &HeaderMap) -> Result<Caller, ApiError> {
        let mut values = headers.get_all(header::AUTHORIZATION).iter();
        let (Some(value), None) = (values.next(), values.next()) else {
            return Err(refused("exactly one authorization header is needed"));
        };
        let Some(presented) = value.as_bytes().strip_prefix(b"Bearer ") else {
            return Err(refused("the authorization header is not a bearer token"));
        };
        let presented = TokenHash::of(presented);
        // All are compared, so that the time tells nothing about which one came close.
        let mut found = None;
        for (caller, hash) in self.callers.iter() {
            if hash.matches(&presented) {
                found = Some(*caller);
            }
        }
        found.ok_or_else(|| refused("nobody here has this token"))
    }
}

fn refused(why: &str) -> ApiError {
    Problem::new(Code::NotAuthorised, "The caller is not authorised")
        .detail(why)
        .hint("if Boxmaker was restarted just now, try again")
        .into()
}

/// Checks by callers, for handlers that not everyone who may call the server may use.
pub trait Callers {
    /// Fails unless the caller is one of `allowed`.
    fn must_be(self, allowed: &[Caller]) -> Result<(), ApiError>;
}

impl Callers for Caller {
    fn must_be(self, allowed: &[Caller]) -> Result<(), ApiError> {
        if allowed.contains(&self) {
            return Ok(());
        }
        let title = format!("`{self}` may not call this");
        Err(ApiError::new(Code::NotAuthorised, title))
    }
}

/// A handler asks for its caller as an argument.
impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let caller = parts.extensions.get::<Self>().copied();
        caller.ok_or_else(|| refused("the request came past the check"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bxcore::role::Role;

    fn check(values: &[&str], auth: &ServerAuth) -> Option<Caller> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::AUTHORIZATION, value.parse().unwrap());
        }
        auth.check(&headers).ok()
    }

    #[test]
    fn only_a_known_token_in_one_header_is_admitted() {
        let (loopd, owner) = (Token::generate().unwrap(), Token::generate().unwrap());
        let keys = RoleKeys {
            me: Role::Brokerd,
            serve: vec![
                (Caller::Role(Role::Loopd), loopd.hash()),
                (Caller::Owner, owner.hash()),
            ],
            call: Vec::new(),
            starter: None,
        };
        let auth = ServerAuth::from_keys(&keys);
        let bearer = |token: &Token| format!("Bearer {}", token.expose());
        assert_eq!(
            check(&[&bearer(&loopd)], &auth),
            Some(Caller::Role(Role::Loopd))
        );
        assert_eq!(check(&[&bearer(&owner)], &auth), Some(Caller::Owner));
        assert_eq!(check(&[], &auth), None);
        assert_eq!(check(&[&bearer(&owner), &bearer(&owner)], &auth), None);
        assert_eq!(check(&[owner.expose()], &auth), None);
        assert_eq!(check(&["Bearer "], &auth), None);
        assert_eq!(check(&[&format!("{}0", bearer(&owner))], &auth), None);
        assert_eq!(check(&[&bearer(&Token::generate().unwrap())], &auth), None);
    }

    #[test]
    fn a_caller_is_held_to_its_list() {
        Caller::Owner.must_be(&[Caller::Owner]).unwrap();
        let error = Caller::Role(Role::Loopd)
            .must_be(&[Caller::Owner])
            .unwrap_err();
        assert_eq!(error.problem().code, Code::NotAuthorised);
    }
}
