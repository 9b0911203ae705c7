//! Every way in which a model call to a provider can fail, each a class of its own.

use crate::egress::{EgressError, Refusal};
use bxcore::code::Code;
use bxcore::id::BackendName;
use bxcore::problem::Problem;

/// Why there is no whole answer. Nothing of it is the other side's own words.
#[derive(Debug, thiserror::Error)]
pub enum ProviderFailure {
    /// The secret went away since brokerd started.
    #[error("its secret is not there any more")]
    NoSecret,
    /// The exchange itself failed.
    #[error(transparent)]
    Egress(#[from] EgressError),
    /// It answered, and not with an answer.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The answer is not a stream of events.
    #[error("its answer is not a stream of events")]
    NotEvents,
    /// Something in the stream is no chat completion.
    #[error("its answer is not a chat completion")]
    Garbled,
    /// It sent back a key of ours, which must not be recorded.
    #[error("a stored secret stands in its answer")]
    Secret,
    /// It reports an error in the middle of its answer.
    #[error("it reported an error in the middle of its answer")]
    Reported,
    /// The stream ended before the answer did.
    #[error("its answer ended before it was complete")]
    Incomplete,
    /// Whoever wanted the answer went away.
    #[error("the call was stopped")]
    Stopped {
        /// Whether a byte may have been on its way by then.
        sent: bool,
    },
}

impl ProviderFailure {
    /// The class, as it is told and counted.
    pub const fn class(&self) -> &'static str {
        match self {
            Self::NoSecret => "no-secret",
            Self::Egress(error) => error.class(),
            Self::Refused(refusal) => refusal.class(),
            Self::NotEvents => "not-events",
            Self::Garbled => "garbled",
            Self::Reported => "reported",
            Self::Secret => "secret",
            Self::Incomplete => "cut-off",
            Self::Stopped { .. } => "stopped",
        }
    }

    /// Whether the other side may charge for it. Where that is not known, it may.
    pub const fn may_have_cost(&self) -> bool {
        match self {
            Self::NoSecret => false,
            Self::Egress(error) => error.may_have_been_sent(),
            Self::Refused(refusal) => refusal.may_have_cost(),
            Self::Stopped { sent } => *sent,
            Self::NotEvents | Self::Garbled | Self::Reported | Self::Secret | Self::Incomplete => {
                true
            }
        }
    }

    /// The code: one for calls that cost nothing, one for those that may have.
    pub const fn code(&self) -> Code {
        match self {
            Self::Stopped { .. } => Code::Stopped,
            _ if self.may_have_cost() => Code::ProviderFailed,
            _ => Code::ProviderRefused,
        }
    }

    /// What lies behind it, for the owner's log.
    pub fn cause(&self) -> Option<String> {
        match self {
            Self::Egress(error) => error.cause(),
            _ => None,
        }
    }

    /// The failure as a person meets it.
    pub fn problem(&self, name: &BackendName) -> Problem {
        let title = format!("The provider `{name}` gave no answer ({})", self.class());
        let problem = Problem::new(self.code(), title).detail(bxkit::report::chain(self));
        match self.hint() {
            Some(hint) => problem.hint(hint),
            None => problem,
        }
    }

    const fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::NoSecret | Self::Refused(Refusal::Unauthorised) => {
                "put a valid key into the secret's file (`boxmaker doctor` names the folder); \
                 then `boxmaker down`, and it is read anew"
            }
            Self::Refused(Refusal::PaymentRequired) => {
                "pay for credit there, or use another backend"
            }
            Self::Refused(Refusal::NotFound | Refusal::Redirect(_)) => {
                "check `url` and `model` of the provider in brokerd.toml"
            }
            Self::Refused(Refusal::RateLimited(_) | Refusal::ServerError(_)) => {
                "ask again later; it is not asked again by itself"
            }
            Self::Egress(EgressError::Stalled { .. } | EgressError::TimedOut { .. }) => {
                "`first_byte_ms` and `between_ms` of the provider in brokerd.toml allow longer silence"
            }
            Self::NotEvents | Self::Garbled => {
                "is `url` the whole address of an OpenAI-compatible chat completion?"
            }
            _ => return None,
        })
    }
}
