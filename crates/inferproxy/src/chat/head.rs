//! The headers of a chat request: which backend, which slot, for whom. Pure.

use axum::http::HeaderMap;
use bxcore::code::Code;
use bxcore::id::{BackendName, ModelCallId, SessionId};
use bxcore::problem::Problem;
use bxcore::wire::inferproxy::{
    HEADER_BACKEND, HEADER_CALL, HEADER_LANE, HEADER_SESSION, HEADER_SLOT, Lane,
};

/// What the headers of a chat request say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatHead {
    /// The backend.
    pub backend: BackendName,
    /// The slot, on a backend that has slots.
    pub slot: Option<u32>,
    /// What the slot is used for.
    pub lane: Lane,
    /// The session.
    pub session: SessionId,
    /// Its number for the call.
    pub call: ModelCallId,
}

impl ChatHead {
    /// Reads the headers.
    ///
    /// # Errors
    /// One is absent, there twice, or breaks the rule of what it names.
    pub fn read(headers: &HeaderMap) -> Result<Self, Problem> {
        let slot = match optional(headers, HEADER_SLOT)? {
            Some(text) => Some(text.parse().map_err(|_| invalid(HEADER_SLOT))?),
            None => None,
        };
        Ok(Self {
            backend: read(headers, HEADER_BACKEND, |text| BackendName::new(text).ok())?,
            slot,
            lane: read(headers, HEADER_LANE, Lane::parse)?,
            session: read(headers, HEADER_SESSION, |text| SessionId::new(text).ok())?,
            call: read(headers, HEADER_CALL, |text| {
                text.parse().ok().map(ModelCallId)
            })?,
        })
    }
}

fn read<T>(
    headers: &HeaderMap,
    name: &'static str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<T, Problem> {
    optional(headers, name)?
        .and_then(parse)
        .ok_or_else(|| invalid(name))
}

fn optional<'a>(headers: &'a HeaderMap, name: &'static str) -> Result<Option<&'a str>, Problem> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| invalid(name)),
        (Some(_), Some(_)) => Err(invalid(name)),
    }
}

fn invalid(name: &'static str) -> Problem {
    Problem::new(
        Code::BadRequest,
        "A model call lacks something in its headers",
    )
    .detail(format!("`{name}` must be there once and be valid"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(replaced: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            (HEADER_BACKEND, "local"),
            (HEADER_SLOT, "0"),
            (HEADER_LANE, "main"),
            (HEADER_SESSION, "chat-1"),
            (HEADER_CALL, "7"),
        ] {
            headers.insert(name, value.parse().unwrap());
        }
        for (name, value) in replaced {
            headers.remove(*name);
            if !value.is_empty() {
                headers.insert(*name, value.parse().unwrap());
            }
        }
        headers
    }

    #[test]
    fn all_headers_are_read() {
        let head = ChatHead::read(&headers(&[])).unwrap();
        assert_eq!(
            (head.slot, head.lane, head.call),
            (Some(0), Lane::Main, ModelCallId(7))
        );
        let head = ChatHead::read(&headers(&[(HEADER_SLOT, "")])).unwrap();
        assert_eq!(head.slot, None);
    }

    #[test]
    fn an_absent_or_invalid_one_is_named() {
        for (name, value) in [
            (HEADER_BACKEND, ""),
            (HEADER_BACKEND, "A b"),
            (HEADER_SLOT, "-1"),
            (HEADER_SLOT, "99999999999"),
            (HEADER_LANE, "front"),
            (HEADER_SESSION, "../x"),
            (HEADER_CALL, ""),
        ] {
            let problem = ChatHead::read(&headers(&[(name, value)])).unwrap_err();
            assert_eq!(problem.code, Code::BadRequest);
            assert!(problem.detail.unwrap().contains(name));
        }
        let mut twice = headers(&[]);
        twice.append(HEADER_SLOT, "1".parse().unwrap());
        assert!(ChatHead::read(&twice).is_err());
    }
}
