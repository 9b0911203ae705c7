//! What brokerd answers: labels, tools, calls, explanations, audit records.
//!
//! | route | takes | gives |
//! |---|---|---|
//! | `PUT /v1/sessions/{id}` | [`Register`] | [`Authority`] |
//! | `GET /v1/sessions/{id}` | | [`Authority`] |
//! | `DELETE /v1/sessions/{id}` | | forgets the calls of a deleted session, never its label |
//! | `GET /v1/sessions/{id}/tools` | | `Vec<ToolSpec>` |
//! | `POST /v1/calls` | [`CallRequest`] | [`CallAnswer`] |
//! | `POST /v1/explain` | [`ExplainRequest`] | [`Walk`] |
//! | `POST /v1/endorse` | owner only, [`Endorse`] | [`Endorsed`] |
//! | `GET /v1/grants` | | `Vec<Grant>` |
//! | `GET /v1/tools` | owner only | `Vec<ToolSpec>`, whatever any session may use |
//! | `GET /v1/audit/{seq}` | owner only | `serde_json::Value`, intent and outcome joined |
//! | `POST /v1/audit/checkpoint` | owner only | [`crate::audit::Checkpoint`], made now |
//! | `GET /v1/audit` | owner only | [`AuditStatus`] |
//!
//! What it answers about providers is in [`super::provider`], about approvals in
//! [`super::approval`].

use super::approval::Awaiting;
use crate::code::Code;
use crate::guardrails::ToolRules;
use crate::id::{CallId, SessionId};
use crate::label::Label;
use crate::money::MicroUsd;
use crate::tool::ToolName;
#[cfg(doc)]
use crate::tool::ToolSpec;
use crate::transcript::CallOutcome;
use crate::usage::Charge;
use serde::{Deserialize, Serialize};

/// How long loopd waits for the end of a tool call, in seconds: longer than brokerd lets any take.
pub const CALL_TIMEOUT_SECS: u64 = 900;

/// Makes a session known to brokerd, or raises the label of one that is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Register {
    /// What the session has read or is about to read; joined to what the ledger has.
    pub raise: Label,
    /// The session that asked for it. Stored once; a later other one is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<SessionId>,
    /// The session's tool rules. A child's are narrowed by its parent's stored ones, so that
    /// nothing that loopd stores can loosen them.
    #[serde(default)]
    pub rules: ToolRules,
}

/// What brokerd holds of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Authority {
    /// The session's label in the ledger.
    pub label: Label,
    /// The tool rules that it is judged by.
    pub rules: ToolRules,
    /// The SHA-256, as hex, of what `GET /v1/sessions/{id}/tools` answers: whoever has read that
    /// answer needs not ask again.
    pub tools_sha256: String,
}

/// A tool call to decide and to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallRequest {
    /// The calling session.
    pub session: SessionId,
    /// Its number for the call. With the session it is the call's key: the same key again is
    /// answered from the record, and nothing runs twice.
    pub call: CallId,
    /// The tool.
    pub tool: ToolName,
    /// The arguments as the model wrote them.
    pub arguments: String,
    /// The session's label as loopd knows it; judged together with the ledger's.
    pub label: Label,
    /// The cap on the result, in bytes.
    pub result_bytes: u32,
    /// What is set aside on all accounts for a call that costs money; see [`ToolSpec::reserve`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved: Option<MicroUsd>,
    /// Whether the call is made anew after a crash of loopd, so that an outcome may be missing.
    #[serde(default)]
    pub resumed: bool,
}

/// What came of a request for a tool call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CallAnswer {
    /// It is over.
    Ended(Box<CallResult>),
    /// The owner has yet to approve it: the same request again waits for that.
    Awaiting(Awaiting),
}

impl CallAnswer {
    /// The result, if the call is over.
    pub fn result(self) -> Option<CallResult> {
        match self {
            Self::Ended(result) => Some(*result),
            Self::Awaiting(_) => None,
        }
    }
}

/// How a tool call ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallResult {
    /// How it ended.
    pub outcome: CallOutcome,
    /// Why, unless it is ok.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// What the model reads: capped and neutralised, not yet framed.
    pub content: String,
    /// The result's length before it was capped, in bytes.
    pub raw_bytes: u64,
    /// The result's own label.
    pub label: Label,
    /// The session's label after it was joined.
    pub session_label: Label,
    /// The number of the decision's record in the audit log.
    pub audit: Option<u64>,
    /// What it cost, where it ran and costs money.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub charge: Option<Charge>,
    /// Whether it was answered from the record of a call that was made before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replayed: bool,
}

/// Asks what a decision would be, without running anything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExplainRequest {
    /// The tool.
    pub tool: ToolName,
    /// The session that would call; without one, `label` and no rules.
    #[serde(default)]
    pub session: Option<SessionId>,
    /// A label to judge by in place of the session's.
    #[serde(default)]
    pub label: Option<Label>,
    /// Arguments; the steps that need them are left open without.
    #[serde(default)]
    pub arguments: Option<String>,
}

/// The owner says what label an object has that a tool wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endorse {
    /// The session whose folders are meant; needed for its own folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// The file as tools see it. A session's own folder is one object: `.`.
    pub path: String,
    /// The label that it has from now on.
    pub label: Label,
    /// Why, for the record.
    pub why: String,
}

/// An object that has another label now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endorsed {
    /// The label that it had.
    pub before: Label,
    /// The label that it has.
    pub after: Label,
    /// The number of the record.
    pub audit: u64,
}

/// One rule of the decision walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// The tool exists.
    Known,
    /// The arguments fit its schema.
    Arguments,
    /// The session's guardrails let it be used.
    Guardrails,
    /// A grant is there, or the tool needs none.
    Grant,
    /// The session's class is within the grant's.
    Class,
    /// An untrusted session may use it.
    Integrity,
    /// No stored secret would be sent.
    Secrets,
    /// The call's cost is reserved and within the day's limit.
    Budget,
    /// The owner approved, where that is asked for.
    Approval,
}

impl Rule {
    /// The rules in the order in which they are walked.
    pub const WALK: [Self; 9] = [
        Self::Known,
        Self::Arguments,
        Self::Guardrails,
        Self::Grant,
        Self::Class,
        Self::Integrity,
        Self::Secrets,
        Self::Budget,
        Self::Approval,
    ];
}

/// What one rule said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// The rule.
    pub rule: Rule,
    /// What it said.
    pub verdict: Verdict,
    /// Why, with the values that matter.
    pub because: String,
}

/// What a rule can say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It holds.
    Pass,
    /// It does not, and the walk ends here.
    Fail,
    /// It can't be told without running (no arguments were given, an answer is awaited).
    Open,
}

/// A decision with every step that led to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Walk {
    /// The steps, up to the first that fails.
    pub steps: Vec<Step>,
    /// Why it is denied, if it is.
    pub denied: Option<Code>,
    /// Which grant was used, counted from 1 in the order of the file.
    pub grant: Option<usize>,
}

impl Walk {
    /// Whether nothing speaks against running.
    pub fn allows(&self) -> bool {
        self.denied.is_none()
    }
}

/// The state of the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditStatus {
    /// The number of the last record.
    pub seq: u64,
    /// Its hash, as hex.
    pub head: String,
}
