//! What a status says that is no answer. Pure; the other side's own words are not read.

use super::retry_after::RetryAfter;
use axum::http::StatusCode;

/// Why a model service answered, and not with an answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It wants us to go elsewhere, which we don't.
    #[error("it answered with a redirect ({0}), and none is followed")]
    Redirect(u16),
    /// It does not accept the secret.
    #[error("it did not accept the secret (401), which only the owner can replace")]
    Unauthorised,
    /// It wants to be paid.
    #[error("the account there has no credit (402)")]
    PaymentRequired,
    /// It does not allow it.
    #[error("it does not allow this request (403)")]
    Forbidden,
    /// There is no such model or address.
    #[error("there is no such address or model (404)")]
    NotFound,
    /// It is asked too often.
    #[error("it is being asked too often (429){}", after(.0.as_ref()))]
    RateLimited(Option<RetryAfter>),
    /// It refuses for another reason.
    #[error("it refused the request ({0})")]
    Rejected(u16),
    /// It has a fault.
    #[error("it has a fault of its own ({0})")]
    ServerError(u16),
    /// It answered with something that is no answer.
    #[error("it answered with status {0}, which is no answer")]
    Status(u16),
}

impl Refusal {
    /// Reads a status; none where it promises an answer.
    pub fn of(status: StatusCode, retry_after: Option<RetryAfter>) -> Option<Self> {
        let number = status.as_u16();
        Some(match status {
            StatusCode::OK => return None,
            StatusCode::UNAUTHORIZED => Self::Unauthorised,
            StatusCode::PAYMENT_REQUIRED => Self::PaymentRequired,
            StatusCode::FORBIDDEN => Self::Forbidden,
            StatusCode::NOT_FOUND => Self::NotFound,
            StatusCode::TOO_MANY_REQUESTS => Self::RateLimited(retry_after),
            other if other.is_redirection() => Self::Redirect(number),
            other if other.is_client_error() => Self::Rejected(number),
            other if other.is_server_error() => Self::ServerError(number),
            _ => Self::Status(number),
        })
    }

    /// The class, as it is told and counted.
    pub const fn class(&self) -> &'static str {
        match self {
            Self::Redirect(_) => "redirect",
            Self::Unauthorised => "unauthorised",
            Self::PaymentRequired => "payment-required",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not-found",
            Self::RateLimited(_) => "rate-limited",
            Self::Rejected(_) => "rejected",
            Self::ServerError(_) => "server-error",
            Self::Status(_) => "status",
        }
    }

    /// Whether the other side may charge for it. Where that is not known, it may.
    pub const fn may_have_cost(&self) -> bool {
        matches!(self, Self::ServerError(_) | Self::Status(_))
    }
}

fn after(retry_after: Option<&RetryAfter>) -> String {
    retry_after
        .map(|after| format!("; it says to try again {after}"))
        .unwrap_or_default()
}
