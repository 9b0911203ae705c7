//! Every way in which a consultation can fail, each a class of its own.

use crate::egress::{EgressError, Refusal};

/// Why there is no answer. Nothing of it is the other side's own words.
#[derive(Debug, thiserror::Error)]
pub enum ConsultFailure {
    /// The secret went away since brokerd started.
    #[error("its secret is not there any more")]
    NoSecret,
    /// The exchange itself failed.
    #[error(transparent)]
    Egress(#[from] EgressError),
    /// It answered, and not with an answer.
    #[error(transparent)]
    Refused(#[from] Refusal),
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

impl ConsultFailure {
    /// The class, as it is told and counted.
    pub const fn class(&self) -> &'static str {
        match self {
            Self::NoSecret => "no-secret",
            Self::Egress(error) => error.class(),
            Self::Refused(refusal) => refusal.class(),
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
            Self::Refused(refusal) => refusal.may_have_cost(),
            Self::NoSecret => false,
            Self::NotJson | Self::NoChoices | Self::ToolCalls | Self::Empty => true,
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
