//! Every way in which a consultation can fail, each a class of its own.

use crate::egress::EgressError;

/// Why there is no answer. Nothing of it is the other side's own words.
#[derive(Debug, thiserror::Error)]
pub enum ConsultFailure {
    /// The secret went away since brokerd started.
    #[error("its secret is not there any more")]
    NoSecret,
    /// The exchange itself failed.
    #[error(transparent)]
    Egress(#[from] EgressError),
    /// It wants us to go elsewhere, which we don't.
    #[error("it answered with a redirect ({0}), and none is followed")]
    Redirect(u16),
    /// It does not accept the secret.
    #[error("it did not accept the secret (401)")]
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
    #[error("it is being asked too often (429){}", after(.0.as_deref()))]
    RateLimited(Option<String>),
    /// It refuses for another reason.
    #[error("it refused the request ({0})")]
    Rejected(u16),
    /// It has a fault.
    #[error("it has a fault of its own ({0})")]
    ServerError(u16),
    /// It answered with something that is no answer.
    #[error("it answered with status {0}, which is no answer")]
    Status(u16),
    /// The answer is not one JSON document.
    #[error("its answer is not JSON")]
    NotJson,
    /// The answer has no choice.
    #[error("its answer holds no choice")]
    NoChoices,
    /// It calls tools that nobody offered.
    #[error("it called a tool in place of an answer")]
    ToolCalls,
    /// It said nothing.
    #[error("its answer is empty")]
    Empty,
}

fn after(retry_after: Option<&str>) -> String {
    let plain = |text: &&str| {
        text.bytes()
            .all(|b| b.is_ascii_alphanumeric() || b" ,:".contains(&b))
    };
    let text = retry_after.filter(plain);
    text.map(|text| format!("; it says to try again after: {text}"))
        .unwrap_or_default()
}

impl ConsultFailure {
    /// The class, as it is told and counted.
    pub const fn class(&self) -> &'static str {
        match self {
            Self::NoSecret => "no-secret",
            Self::Egress(error) => error.class(),
            Self::Redirect(_) => "redirect",
            Self::Unauthorised => "unauthorised",
            Self::PaymentRequired => "payment-required",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not-found",
            Self::RateLimited(_) => "rate-limited",
            Self::Rejected(_) => "rejected",
            Self::ServerError(_) => "server-error",
            Self::Status(_) => "status",
            Self::NotJson => "not-json",
            Self::NoChoices => "no-choices",
            Self::ToolCalls => "tool-calls",
            Self::Empty => "empty",
        }
    }

    /// Whether the other side may charge for it. Where that is not known, it may.
    pub const fn may_have_cost(&self) -> bool {
        match self {
            Self::Egress(error) => error.may_have_been_sent(),
            Self::NoSecret
            | Self::Redirect(_)
            | Self::Unauthorised
            | Self::PaymentRequired
            | Self::Forbidden
            | Self::NotFound
            | Self::RateLimited(_)
            | Self::Rejected(_) => false,
            Self::ServerError(_)
            | Self::Status(_)
            | Self::NotJson
            | Self::NoChoices
            | Self::ToolCalls
            | Self::Empty => true,
        }
    }

    /// What the model is told.
    pub fn told(&self) -> String {
        let sent = match self {
            Self::Egress(error) if error.may_have_been_sent() => {
                " The question may have reached it."
            }
            Self::Egress(_) | Self::NoSecret => " Nothing was sent.",
            _ => "",
        };
        format!(
            "There is no answer ({}): {self}.{sent} It was asked once and is not asked again by itself.",
            self.class()
        )
    }
}
