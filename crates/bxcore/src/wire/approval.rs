//! Approvals: calls that run only after the owner saw them and agreed.
//!
//! | route of brokerd | who | takes | gives |
//! |---|---|---|---|
//! | `GET /v1/approvals?after=N` | owner | | [`Approvals`], once there is another version than `N`, or after [`WATCH_SECS`] |
//! | `GET /v1/approvals/{id}` | owner | | [`Approval`] |
//! | `POST /v1/approvals/{id}` | owner | [`Answer`] | [`Approval`] |
//! | `POST /v1/calls/withdraw` | loopd | [`Withdraw`] | `Option<CallResult>`: the result, if the call waited or had ended |

use crate::id::{ApprovalId, CallId, SessionId};
use crate::label::Label;
use crate::tool::ToolName;
use serde::{Deserialize, Serialize};

/// How long a request for the pending approvals waits for news, in seconds.
pub const WATCH_SECS: u64 = 20;
/// How long a call waits for the owner before it is told so, in seconds; loopd then asks again.
pub const WAIT_SECS: u64 = 60;

/// What is told of a call that waits for the owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Awaiting {
    /// What the owner answers to.
    pub approval: ApprovalId,
    /// When it is too late, RFC 3339 in UTC.
    pub expires: String,
}

/// How far an approval is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ApprovalState {
    /// The owner has not answered.
    Pending,
    /// The owner agreed, and the call has not begun.
    Approved,
    /// The owner agreed, and the call began. An approval is used once.
    Used,
    /// The owner said no.
    Denied,
    /// Nobody answered in time.
    Expired,
    /// The turn was stopped, or its session deleted, before there was an answer.
    Withdrawn,
    /// What would have run is not what was shown any more, so the owner is asked anew.
    Outdated,
}

impl ApprovalState {
    /// Every state.
    pub const ALL: [Self; 7] = [
        Self::Pending,
        Self::Approved,
        Self::Used,
        Self::Denied,
        Self::Expired,
        Self::Withdrawn,
        Self::Outdated,
    ];

    /// The state as it is stored and shown.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Approved => "approved",
            Self::Used => "used",
            Self::Denied => "denied",
            Self::Expired => "expired",
            Self::Withdrawn => "withdrawn",
            Self::Outdated => "outdated",
        }
    }

    /// The state of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }
}

/// One approval, for the owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// Its id.
    pub id: ApprovalId,
    /// How far it is.
    pub state: ApprovalState,
    /// The session that calls.
    pub session: SessionId,
    /// The sessions that it was made by, the nearest first.
    pub lineage: Vec<SessionId>,
    /// Its number for the call.
    pub call: CallId,
    /// The tool.
    pub tool: ToolName,
    /// The session's label.
    pub label: Label,
    /// When it was asked for, RFC 3339 in UTC.
    pub asked: String,
    /// When it is too late, RFC 3339 in UTC.
    pub expires: String,
    /// What would run, in full: rendered by brokerd from the bytes that will run, with everything
    /// that can't be seen made visible.
    pub shown: String,
    /// The SHA-256 of that text, as hex. An answer repeats it.
    pub shown_sha256: String,
}

/// The approvals that wait for the owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approvals {
    /// Changes whenever the list does.
    pub version: u64,
    /// Those that wait, the oldest first.
    pub pending: Vec<Approval>,
    /// Why the webhook did not take the last notification; none if it did, or there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook_failure: Option<String>,
}

/// What the owner says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Said {
    /// It may run, once.
    Approve,
    /// It may not.
    Deny,
}

/// The owner's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// Yes or no.
    pub said: Said,
    /// [`Approval::shown_sha256`] of what the owner saw: another text is not what was agreed to.
    pub shown_sha256: String,
}

/// The call is not wanted any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Withdraw {
    /// The session.
    pub session: SessionId,
    /// Its number for the call.
    pub call: CallId,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_is_found_by_its_name() {
        for state in ApprovalState::ALL {
            assert_eq!(ApprovalState::parse(state.name()), Some(state));
            assert_eq!(serde_json::to_value(state).unwrap(), state.name());
        }
        assert_eq!(ApprovalState::parse("given"), None);
    }
}
