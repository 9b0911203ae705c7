//! What brokerd answers about providers: models elsewhere that lead whole sessions.
//!
//! | route | takes | gives |
//! |---|---|---|
//! | `GET /v1/providers` | | `Vec<ProviderInfo>` |
//! | `POST /v1/providers/{name}/chat` | [`HEADER_PROVIDER_CALL`]; the body for the provider, byte for byte | server-sent events |
//!
//! A call that is denied, or that nobody can make, is answered with its problem. The stream of any
//! other is that of inferproxy's `/v1/chat`, with an event `label` before the receipt.

use super::brokerd::{Verdict, Walk};
use super::inferproxy::BackendInfo;
use crate::code::Code;
use crate::id::{BackendName, ModelCallId, SessionId};
use crate::label::{Class, Label};
use crate::money::{MicroUsd, Price};
use crate::problem::Problem;
use crate::tool::ToolName;
use serde::{Deserialize, Serialize};

/// Header of a call to a provider: a [`ProviderCall`] as JSON.
pub const HEADER_PROVIDER_CALL: &str = "x-bx-provider-call";
/// Name of our event with the session's [`Label`] after it has read the answer.
pub const EVENT_LABEL: &str = "label";

/// Whose model call it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProviderCall {
    /// The session.
    pub session: SessionId,
    /// Its number for the call, which is used once.
    pub call: ModelCallId,
    /// The session's label as loopd knows it; judged together with the ledger's.
    pub label: Label,
    /// What is set aside for it on all accounts.
    pub reserved: MicroUsd,
}

/// What is known of a provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderInfo {
    /// The provider as a backend.
    pub backend: BackendInfo,
    /// The name that grants and decisions have for it.
    pub tool: ToolName,
    /// What its tokens cost.
    pub price: Price,
    /// The most tokens of one answer.
    pub answer_tokens: u32,
    /// The highest class of session that a grant admits; none without a grant.
    pub max_class: Option<Class>,
    /// The most of one day (UTC), over all sessions.
    pub daily_usd: MicroUsd,
    /// What was spent today, with what is set aside for calls under way.
    pub spent_today: MicroUsd,
}

/// Says why a session may not be led by a provider, and what would be allowed.
pub fn denial(name: &BackendName, code: Code, walk: &Walk) -> Problem {
    let title = format!("The provider `{name}` may not lead this session");
    let failed = walk.steps.iter().find(|step| step.verdict == Verdict::Fail);
    let problem = Problem::new(code, title);
    let problem = match failed {
        Some(step) => problem.detail(format!("{}. Nothing was sent", step.because)),
        None => problem.detail("Nothing was sent"),
    };
    match hint(name, code) {
        Some(hint) => problem.hint(hint),
        None => problem,
    }
}

fn hint(name: &BackendName, code: Code) -> Option<String> {
    Some(match code {
        Code::TaintTooHigh => format!(
            "a new session that holds nothing private may be: \
             `boxmaker ask --class public --backend {name} …`"
        ),
        Code::NoGrant => format!(
            "to allow it, write a `[[grant]]` with tool = \"provider:{name}\" into brokerd.toml"
        ),
        Code::BudgetExhausted => {
            format!("`daily_usd` in `[provider.{name}]` of brokerd.toml is for one day (UTC)")
        }
        Code::ApprovalUnroutable => {
            "a provider's grant can't ask each time: set `approval = \"never\"`".to_owned()
        }
        _ => return None,
    })
}
