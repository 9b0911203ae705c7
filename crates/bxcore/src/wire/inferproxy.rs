//! What inferproxy answers: backends, slots, streams of a model.
//!
//! | route | takes | gives |
//! |---|---|---|
//! | `GET /v1/backends` | | `Vec<BackendInfo>` |
//! | `POST /v1/backends/{name}/probe` | | [`ProbeReport`] |
//! | `POST /v1/chat` | headers below; the body for the server, byte for byte | server-sent events |
//! | `POST /v1/stop` | [`StopRequest`] | [`StopReply`] |
//! | `GET /v1/slots` | | `Vec<SlotStatus>` |
//! | `GET /metrics` | | Prometheus text |
//!
//! The stream of `/v1/chat` carries the server's own `data:` events without a name, unchanged, and
//! these of ours: `waiting` ([`Waiting`]), `receipt` ([`crate::usage::Receipt`], the last one of a
//! complete answer), `problem` ([`crate::problem::Problem`], the last one of a failed one).

use crate::id::{BackendName, ModelCallId, SessionId};
use crate::transcript::ToolMode;
use serde::{Deserialize, Serialize};

/// Header of `/v1/chat`: the backend's name.
pub const HEADER_BACKEND: &str = "x-bx-backend";
/// Header of `/v1/chat`: the slot, on a backend that has slots; the body's `id_slot` must agree.
pub const HEADER_SLOT: &str = "x-bx-slot";
/// Header of `/v1/chat`: what the slot is used for ([`Lane`]).
pub const HEADER_LANE: &str = "x-bx-lane";
/// Header of `/v1/chat`: the session.
pub const HEADER_SESSION: &str = "x-bx-session";
/// Header of `/v1/chat`: the session's number for the model call.
pub const HEADER_CALL: &str = "x-bx-call";

/// Name of our event that tells why nothing comes yet.
pub const EVENT_WAITING: &str = "waiting";
/// Name of our event with the measurements, after a complete answer.
pub const EVENT_RECEIPT: &str = "receipt";
/// Name of our event with what went wrong, in place of the rest of the answer.
pub const EVENT_PROBLEM: &str = "problem";

/// Which of a backend's slots a request may be served on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Lane {
    /// Live turns.
    Main,
    /// Everything else: helpers, scheduled turns, summaries.
    Background,
    /// Council seats with slots of their own.
    Seat,
}

impl Lane {
    /// The lane as it is written in headers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::Background => "background",
            Self::Seat => "seat",
        }
    }

    /// Reads a lane as it is written in headers.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Main, Self::Background, Self::Seat]
            .into_iter()
            .find(|lane| lane.name() == text)
    }
}

/// What kind of server a backend is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BackendKind {
    /// llama-server, with slots.
    LlamaServer,
    /// Any OpenAI-compatible server, without slots.
    Openai,
}

/// The slots of a backend and what they are for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotLayout {
    /// For live turns.
    pub main: Vec<u32>,
    /// For everything else. On a server with a single slot it is the main one.
    pub background: u32,
    /// For council seats.
    #[serde(default)]
    pub seats: Vec<u32>,
}

/// Whether a backend can be used now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BackendState {
    /// It answers.
    Ready,
    /// It is loading its model.
    Loading,
    /// It does not answer.
    Unreachable,
    /// It answers, but not as configured; the problem says how.
    Misconfigured,
}

/// Where a backend comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BackendOrigin {
    /// The owner's configuration.
    Configured,
    /// Found on one of the usual loopback ports.
    Found,
    /// The starter engine.
    Starter,
    /// A provider outside of this box, by brokerd's configuration: brokerd sends to it.
    Provider,
}

/// What is known of a backend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackendInfo {
    /// Its name.
    pub name: BackendName,
    /// Where it comes from.
    pub origin: BackendOrigin,
    /// Where it listens.
    pub url: String,
    /// What kind of server it is.
    pub kind: BackendKind,
    /// The model's name on the wire.
    pub model: String,
    /// Its slots; none on a server without.
    pub slots: Option<SlotLayout>,
    /// How many requests it takes at once, on a server without slots.
    pub max_concurrency: u32,
    /// How many tokens one conversation may have, if the server says.
    pub context_tokens: Option<u64>,
    /// How its model calls tools.
    pub tools: ToolMode,
    /// Whether its template shows earlier reasoning to the model again.
    pub keeps_reasoning: bool,
    /// Changes when the model, its template or its context do.
    pub fingerprint: String,
    /// Whether it can be used now.
    pub state: BackendState,
    /// What is wrong, unless it is ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<crate::problem::Problem>,
}

/// The backend that serves where nobody names one: the first that is ready, else the first that is
/// loading, else the first, which then says what is wrong with it.
pub fn by_default(known: &[BackendInfo]) -> Option<&BackendInfo> {
    let in_state = |state| known.iter().find(move |backend| backend.state == state);
    in_state(BackendState::Ready)
        .or_else(|| in_state(BackendState::Loading))
        .or(known.first())
}

/// Why an answer has not begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "for", rename_all = "kebab-case")]
pub enum Waiting {
    /// The server is loading its model.
    Loading,
    /// The slot is still ending a request that was stopped.
    Draining,
    /// The server asked for a pause.
    RetryAfter {
        /// How long, in milliseconds.
        ms: u64,
    },
}

/// Stops a model call under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StopRequest {
    /// The session.
    pub session: SessionId,
    /// Its number for the call.
    pub call: ModelCallId,
}

/// What became of a stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StopReply {
    /// Nothing was under way.
    NotRunning,
    /// It is stopped, and the server's slot was seen idle.
    Idle,
    /// It is stopped, but the server has not yet let go; nobody gets the slot until it does.
    Draining,
}

/// What a slot does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SlotActivity {
    /// Nothing.
    Idle,
    /// It serves a request of ours.
    Busy,
    /// It ends a request of ours that was stopped.
    Draining,
    /// It serves somebody else.
    Foreign,
    /// The server does not say.
    Unknown,
}

/// One slot as it is now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotStatus {
    /// The backend.
    pub backend: BackendName,
    /// The slot.
    pub slot: u32,
    /// What it does.
    pub activity: SlotActivity,
    /// For which session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// Since when, in milliseconds.
    pub since_ms: u64,
}

/// What a probe of a backend's slots found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeReport {
    /// The backend.
    pub name: BackendName,
    /// The calls of the probe, in order.
    pub calls: Vec<ProbeCall>,
    /// What follows from them.
    pub verdict: ProbeVerdict,
    /// What it means and what to do, in a sentence or two.
    pub advice: String,
    /// Flags of llama-server to set, if any.
    pub flags: Vec<String>,
    /// Whether an object `tool_choice` makes the server call that tool.
    pub forced_tool: bool,
    /// Whether `response_format` with a JSON schema holds the answer to it.
    pub json_schema: bool,
}

/// One call of a probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeCall {
    /// What it was for: main, background, main again.
    pub what: String,
    /// The slot.
    pub slot: Option<u32>,
    /// Tokens of its prompt.
    pub prompt_tokens: u64,
    /// How many of them were in the cache.
    pub cache_n: Option<u64>,
}

/// What the slots of a backend are good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProbeVerdict {
    /// The cache of a live turn survives a helper.
    CacheSurvives,
    /// It does not: the slots share one cache or idle ones are cleared.
    CacheLost,
    /// It has one slot only: all works there, but a helper costs the live turn its cache.
    SingleSlot,
    /// A configured slot is not there.
    SlotMissing,
    /// The server has no slots; whether it keeps a cache is its own matter.
    NoSlots,
}
