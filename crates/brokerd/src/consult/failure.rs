//! Every way in which a consultation can fail, each a class of its own.

use crate::egress::{EgressError, Refusal};

/// Why there is no answer. Nothing of it is the other side's own words.
#[derive(Debug, thiserror::Error)]
pub enum ConsultFailure {
    /// Too many requests were under way for too long.
    #[error("too many requests are under way")]
    Busy,
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
            Self::Busy => "busy",
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
            Self::Busy | Self::NoSecret => false,
            Self::NotJson | Self::NoChoices | Self::ToolCalls | Self::Empty => true,
        }
    }

    /// What lies behind it, for the owner's log.
    pub fn cause(&self) -> Option<String> {
        match self {
            Self::Egress(error) => error.cause(),
            _ => None,
        }
    }

    /// What the model is told.
    pub fn told(&self) -> String {
        let sent = match self {
            Self::Egress(error) if error.may_have_been_sent() => {
                " The question may have reached it."
            }
            Self::Egress(_) | Self::Busy | Self::NoSecret => " Nothing was sent.",
            _ => "",
        };
        format!(
            "There is no answer ({}): {self}.{sent} It was asked once and is not asked again by itself.",
            self.class()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_surely_not_sent_says_so_and_costs_nothing() {
        let refused = ConsultFailure::from(EgressError::Refused {
            host: "localhost".to_owned(),
            leads_to: "192.0.2.1".to_owned(),
        });
        for failure in [ConsultFailure::Busy, ConsultFailure::NoSecret, refused] {
            assert!(!failure.may_have_cost(), "{failure}");
            assert!(failure.told().contains("Nothing was sent."), "{failure}");
        }
        let late = EgressError::TimedOut {
            timeout_ms: 5,
            sent: true,
        };
        assert!(ConsultFailure::from(late).may_have_cost());
    }
}
