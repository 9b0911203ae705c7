//! What a handler answers when it can't do what was asked.

use super::call_error::CallError;
use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bxcore::code::Code;
use bxcore::problem::Problem;

/// The media type of a problem body (RFC 9457).
pub(super) const PROBLEM_JSON: &str = "application/problem+json";

/// A problem with the HTTP status it is answered with.
///
/// Made from a [`Problem`], whose code has a status, or from a failed call to another role, whose
/// problem is passed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError(pub Problem, pub StatusCode);

impl ApiError {
    /// A problem of which only the title is known.
    pub fn new(code: Code, title: impl Into<String>) -> Self {
        Problem::new(code, title).into()
    }

    /// The problem.
    pub fn problem(&self) -> &Problem {
        &self.0
    }
}

impl From<Problem> for ApiError {
    fn from(problem: Problem) -> Self {
        let status = StatusCode::from_u16(problem.code.status());
        Self(problem, status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR))
    }
}

impl From<CallError> for ApiError {
    fn from(error: CallError) -> Self {
        error.problem().into()
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let Self(problem, status) = self;
        // A problem is made of strings, so it can always be written as JSON.
        let body = serde_json::to_vec(&problem).unwrap_or_default();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = status;
        response
            .headers_mut()
            .insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        response
    }
}
