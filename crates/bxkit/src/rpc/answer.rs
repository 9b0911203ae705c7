//! Every failure as a problem body, whoever made it.

use super::api_error::ApiError;
use axum::body::{Body, to_bytes};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use bxcore::code::Code;
use bxcore::problem::Problem;

/// How much of an explanation in plain text is taken over.
const MAX_EXPLANATION_BYTES: usize = 4096;

/// The answer of a handler, where plain text that explains a failure becomes a problem.
///
/// axum's extractors and its router answer failures in plain text; answers with any other media
/// type are left alone.
pub(super) async fn explained(response: Response) -> Response {
    let status = response.status();
    if !(status.is_client_error() || status.is_server_error()) || !is_plain(&response) {
        return response;
    }
    let explanation = to_bytes(response.into_body(), MAX_EXPLANATION_BYTES)
        .await
        .unwrap_or_default();
    refusal(status, String::from_utf8_lossy(&explanation).trim()).into_response()
}

/// The answer in place of one that a panic took away.
pub(super) fn broken() -> Response {
    let problem = Problem::new(Code::Internal, "A fault inside Boxmaker ended the request")
        .hint("the log of the role has the details; please report it");
    ApiError::from(problem).into_response()
}

/// The answer where no route fits.
pub(super) async fn unknown_route(request: axum::extract::Request) -> Response {
    let title = format!(
        "There is nothing at {} {}",
        request.method(),
        request.uri().path()
    );
    let mut response = ApiError::new(Code::NotFound, title).into_response();
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}

fn is_plain(response: &Response<Body>) -> bool {
    match response.headers().get(header::CONTENT_TYPE) {
        None => true,
        Some(kind) => kind.as_bytes().starts_with(b"text/plain"),
    }
}

fn refusal(status: StatusCode, explanation: &str) -> ApiError {
    let (code, title) = match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            (Code::NotAuthorised, "The caller is not authorised")
        }
        StatusCode::NOT_FOUND => (Code::NotFound, "There is nothing at this address"),
        StatusCode::METHOD_NOT_ALLOWED => {
            (Code::BadRequest, "This address doesn't take this method")
        }
        StatusCode::PAYLOAD_TOO_LARGE => (Code::TooLarge, "The request is too large"),
        _ if status.is_client_error() => (
            Code::BadRequest,
            "The request is not what this address takes",
        ),
        _ => (Code::Internal, "A fault inside Boxmaker ended the request"),
    };
    let mut problem = Problem::new(code, title);
    if !explanation.is_empty() {
        problem.detail = Some(explanation.to_owned());
    }
    let mut error = ApiError::from(problem);
    if status == StatusCode::METHOD_NOT_ALLOWED {
        error.1 = status;
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(status: u16, explanation: &str, expect: (Code, u16)) {
        let error = refusal(StatusCode::from_u16(status).unwrap(), explanation);
        assert_eq!((error.0.code, error.1.as_u16()), expect, "{status}");
        assert_eq!(error.0.detail.as_deref().unwrap_or(""), explanation);
    }

    #[test]
    fn each_status_has_its_code() {
        check(400, "bad json", (Code::BadRequest, 400));
        check(401, "", (Code::NotAuthorised, 401));
        check(404, "", (Code::NotFound, 404));
        check(405, "", (Code::BadRequest, 405));
        check(413, "large", (Code::TooLarge, 413));
        check(415, "media type", (Code::BadRequest, 400));
        check(422, "missing field", (Code::BadRequest, 400));
        check(500, "", (Code::Internal, 500));
        check(503, "", (Code::Internal, 500));
    }
}
