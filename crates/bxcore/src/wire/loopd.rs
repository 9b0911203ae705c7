//! What loopd answers: turns, sessions, slots.
//!
//! | route | takes | gives |
//! |---|---|---|
//! | `POST /v1/turns` | [`TurnRequest`] | server-sent events, [`TurnEvent`] each |
//! | `GET /v1/sessions` | | `Vec<SessionRow>` |
//! | `GET /v1/sessions/{id}` | | [`SessionRow`] |
//! | `DELETE /v1/sessions/{id}` | | |
//! | `GET /v1/sessions/{id}/log` | | the transcript, `application/jsonl` |
//! | `GET /v1/sessions/{id}/cache` | | `Vec<CacheRow>` |
//! | `POST /v1/sessions/{id}/compact` | | server-sent events, [`TurnEvent`] each; the report's answer is the summary |
//! | `POST /v1/sessions/{id}/stop` | | [`StopReport`] |
//! | `GET /v1/slots` | | `Vec<GateRow>` |
//! | `POST /v1/backup` | [`BackupRequest`] | [`BackupReport`] |
//! | `GET /v1/jobs` | | `Vec<JobRow>` |
//! | `POST /v1/jobs/{session}/run` | | begins one now; [`JobRow`] |
//! | `GET /v1/activity` | | [`Activity`] |

use super::approval::Awaiting;
use super::inferproxy::Lane;
use crate::chat::PromptProgress;
use crate::code::Code;
use crate::id::{BackendName, CallId, ModelCallId, SessionId, TurnId};
use crate::label::{Class, Label};
use crate::problem::Problem;
use crate::tool::ToolName;
use crate::transcript::{CallOutcome, TurnOutcome};
use crate::usage::Usage;
use serde::{Deserialize, Serialize};

/// Begins a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TurnRequest {
    /// The session; a new `chat-` one if left out.
    #[serde(default)]
    pub session: Option<SessionId>,
    /// What the person says.
    pub text: String,
    /// The class of what they say; private if left out.
    #[serde(default)]
    pub class: Option<Class>,
    /// The backend; the session's own, or the first that is ready, if left out.
    #[serde(default)]
    pub backend: Option<BackendName>,
    /// Whether to fail at once when another turn holds the session.
    #[serde(default)]
    pub no_wait: bool,
}

/// What happens in a turn, in the order in which it happens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum TurnEvent {
    /// Nothing happens yet, and why.
    Waiting {
        /// Why.
        reason: WaitReason,
    },
    /// The turn holds its session.
    Started {
        /// The session.
        session: SessionId,
        /// The turn.
        turn: TurnId,
        /// The backend.
        backend: BackendName,
    },
    /// The server reads the prompt.
    Prefill {
        /// How far.
        progress: PromptProgress,
    },
    /// The model thinks.
    Reasoning {
        /// More of it.
        text: String,
    },
    /// The model speaks.
    Delta {
        /// More of it.
        text: String,
    },
    /// What was shown of the current answer is void: it was not an answer to the person.
    Retract,
    /// A tool is called.
    ToolCall {
        /// The session's number for the call.
        call: CallId,
        /// The inner tool.
        tool: ToolName,
        /// Its arguments, capped for display.
        arguments: String,
    },
    /// A tool call waits for the owner's approval.
    Approval {
        /// The session's number for the call.
        call: CallId,
        /// The inner tool.
        tool: ToolName,
        /// What the owner answers to.
        awaiting: Awaiting,
    },
    /// A tool call ended.
    ToolResult {
        /// The session's number for the call.
        call: CallId,
        /// The inner tool.
        tool: ToolName,
        /// How.
        outcome: CallOutcome,
        /// Why, unless it is ok.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<Code>,
        /// The start of the result, for display.
        preview: String,
    },
    /// Something happens in a child of the session.
    Child {
        /// The child.
        session: SessionId,
        /// What. A child's own children are within.
        event: Box<Self>,
    },
    /// The conversation was summed up, or could not be and goes on as it is.
    Compacted {
        /// Why it could not be.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        problem: Option<Problem>,
    },
    /// The session's label rose.
    Label {
        /// To this.
        label: Label,
    },
    /// The turn ended. Always the last event of a turn that started.
    End {
        /// How.
        report: Box<TurnReport>,
    },
    /// The turn could not begin. The last event of a turn that never started.
    Refused {
        /// Why.
        problem: Problem,
    },
}

/// Why a turn waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "for", rename_all = "kebab-case")]
pub enum WaitReason {
    /// Another turn holds the session.
    Session,
    /// The slot serves others first.
    Slot {
        /// How many are ahead.
        ahead: usize,
    },
    /// The server loads its model.
    Loading,
    /// The slot is still ending a stopped request.
    Draining,
    /// The server asked for a pause.
    RetryAfter {
        /// How long, in milliseconds.
        ms: u64,
    },
    /// The way to the model broke in the middle of the answer, which starts again.
    Again,
    /// The conversation nearly fills the model's context, and is summed up first.
    Compacting,
}

/// One tool call in a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallReport {
    /// The session's number for it.
    pub call: CallId,
    /// The inner tool.
    pub tool: ToolName,
    /// How it ended.
    pub outcome: CallOutcome,
}

/// A turn that ended: the object that `ask --json` prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnReport {
    /// The session.
    pub session: SessionId,
    /// How it ended.
    pub outcome: TurnOutcome,
    /// The answer; empty unless it completed.
    pub answer: String,
    /// The session's label at the end.
    pub label: Label,
    /// The tools it called.
    pub calls: Vec<CallReport>,
    /// What it used.
    pub usage: Usage,
    /// What it cost, in dollars with six places.
    pub cost_usd: String,
    /// What went wrong, unless it completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
}

/// What a session does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SessionStatus {
    /// A turn is under way.
    Running,
    /// It waits for the next message.
    Idle,
    /// Its transcript can't be read.
    Broken,
}

/// One session in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRow {
    /// The session.
    pub id: SessionId,
    /// The session that asked for it.
    pub parent: Option<SessionId>,
    /// What it does.
    pub status: SessionStatus,
    /// Its label.
    pub label: Label,
    /// How many turns it had.
    pub turns: u64,
    /// When something last happened, RFC 3339 in UTC.
    pub updated: String,
    /// The start of its first message.
    pub title: String,
}

/// One model call of a session and what the prompt cache did for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheRow {
    /// The session's number for the call.
    pub model_call: ModelCallId,
    /// The turn.
    pub turn: TurnId,
    /// The slot.
    pub slot: Option<u32>,
    /// Tokens of the prompt.
    pub prompt_tokens: u64,
    /// How many were in the cache.
    pub cache_n: Option<u64>,
    /// Tokens written.
    pub completion_tokens: u64,
    /// Prompt and answer of the call before, in tokens: what the cache could hold.
    pub previous_total: u64,
    /// Tokens that had to be read again although they were there before, and why.
    pub lost: Option<CacheLoss>,
}

/// Tokens that the cache lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheLoss {
    /// How many.
    pub tokens: u64,
    /// Why.
    pub cause: CacheLossCause,
}

/// Why the cache lost tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheLossCause {
    /// A new epoch began.
    NewEpoch,
    /// The session got another slot, or another session used this one in between.
    SlotTaken,
    /// The template writes the last tool call otherwise than the model did.
    ToolCallRewritten,
    /// The template drops the reasoning of the last answer.
    ReasoningDropped,
    /// The server's slots share one cache, or it cleared this one.
    ServerCleared,
    /// The last answer was read back in other tokens than it was written in. The text is the same:
    /// a server gives and takes text, and a model may write one that the tokenizer splits otherwise.
    AnswerRetokenised,
    /// The server does not say how much was cached.
    NotReported,
}

/// What became of a stop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StopReport {
    /// Turns that were stopped.
    pub stopped: u32,
    /// Turns that could not be stopped.
    pub failed: u32,
    /// Slots that the server has not yet let go.
    pub draining: u32,
}

/// How urgent a request for a slot is; lower goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Priority {
    /// A compaction summary, whose session can't go on without it.
    Compaction,
    /// A live turn, or a helper whose parent is held by one.
    Live,
    /// A scheduled job that is due.
    Job,
    /// The heartbeat.
    Heartbeat,
    /// A summary of a long tool result.
    ToolSummary,
}

/// One holder of a slot, or one who waits for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GateRow {
    /// The backend.
    pub backend: BackendName,
    /// The slot; none on a backend without slots, and for one who waits for any main slot.
    pub slot: Option<u32>,
    /// What the slot is for.
    pub lane: Lane,
    /// The session.
    pub session: SessionId,
    /// How urgent.
    pub priority: Priority,
    /// Whether it holds the slot; else it waits.
    pub holds: bool,
    /// Since when, in milliseconds.
    pub since_ms: u64,
}

/// Asks for a copy of everything that loopd keeps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackupRequest {
    /// A name for the folder that is made below `backups/` in the state folder.
    pub name: String,
}

/// Where the copy is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupReport {
    /// The folder.
    pub folder: String,
    /// How many sessions are in it.
    pub sessions: u64,
    /// Its size in bytes.
    pub bytes: u64,
}

/// Whether anything is under way; the supervisor leaves when nothing was for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activity {
    /// Turns under way.
    pub turns: u32,
    /// For how long nothing was, in milliseconds; 0 while something is.
    pub idle_ms: u64,
    /// How many jobs wait for their time, the heartbeat among them.
    #[serde(default)]
    pub scheduled: u32,
}

/// A job or the heartbeat, and how it stands with it. Times are RFC 3339, in the job's time zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRow {
    /// The session that its turns are in.
    pub session: SessionId,
    /// When it comes, as it was written.
    pub rule: String,
    /// Whether a turn of it is under way.
    pub running: bool,
    /// When it comes next; none if it never does.
    pub next: Option<String>,
    /// When it last began; none if it never did.
    pub began: Option<String>,
    /// How that ended; none while it has not, and where it could not begin.
    pub outcome: Option<TurnOutcome>,
    /// What was wrong with it, where something was.
    pub code: Option<Code>,
    /// When it was last left out since its session was busy, if that was after it last began.
    pub skipped: Option<String>,
}
