//! The transcript of a session: what is in `sessions/<id>/log.jsonl`, one entry a line.
//!
//! loopd alone writes it, and only at its end; `less` and `jq` can read it. Each line says by which
//! version `v` of the format it is written, and there is a golden file for each.

use crate::chat::{RawMessage, ToolCall};
use crate::code::Code;
use crate::id::{BackendName, CallId, EpochId, ModelCallId, SessionId, TurnId};
use crate::label::Label;
use crate::money::MicroUsd;
use crate::tool::ToolName;
use crate::usage::{Receipt, Usage};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::sync::Arc;

/// The version that is written. Readers accept every version from 1 to this one.
pub const TRANSCRIPT_VERSION: u32 = 1;

/// A transcript's name in its session's folder.
pub const TRANSCRIPT_FILE: &str = "log.jsonl";

/// One line of a transcript.
///
/// Reading is done by hand, in [`parse_line`]: the messages are raw JSON text, which the derived
/// readers of flattened and tagged types can't hand on.
#[derive(Debug, Clone, Serialize)]
pub struct Line {
    /// The version of the format.
    pub v: u32,
    /// The entry's place in the transcript: 1, 2, 3 …, without a gap.
    pub n: u64,
    /// When it was written, RFC 3339 in UTC.
    pub ts: String,
    /// What happened.
    #[serde(flatten)]
    pub entry: Entry,
}

/// What one entry of a transcript says.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Entry {
    /// The session began.
    Open(Open),
    /// A new epoch began: everything a request starts with, byte for byte.
    Epoch(Epoch),
    /// A turn began with this message.
    User(User),
    /// A model answered.
    Assistant(Assistant),
    /// A tool call ended.
    Tool(Tool),
    /// The turn ended.
    TurnEnd(TurnEnd),
}

/// Where a child stands in its tree. Stored with its first entry, and never taken from what a model
/// wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lineage {
    /// The session at the top.
    pub root: SessionId,
    /// The root's turn that all of the tree works for.
    pub root_turn: TurnId,
    /// The parent's turn that asked for it.
    pub parent_turn: TurnId,
    /// The parent's number for the call that asked for it.
    pub call: CallId,
    /// How many sessions deep its own children may go on.
    pub depth_left: u32,
}

/// The first entry.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Open {
    /// The session.
    pub session: SessionId,
    /// The session that asked for it, if it is a child.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<SessionId>,
    /// Where it stands in its tree, if it is a child.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lineage: Option<Lineage>,
    /// The label it began with.
    pub label: Label,
}

/// How a model is made to call tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolMode {
    /// The server's own tool calls.
    Native,
    /// Each reply is held to a JSON schema of one call or an answer.
    Schema,
}

/// Why an epoch began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EpochReason {
    /// The session is new.
    Start,
    /// The model behind the backend is another one, or the session moved to another backend.
    ModelChanged,
    /// The owner changed the configuration.
    ConfigChanged,
    /// A summary took the place of the messages before it.
    Compacted,
}

/// The baseline of an epoch.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Epoch {
    /// Which epoch.
    pub epoch: EpochId,
    /// Why it began.
    pub reason: EpochReason,
    /// The backend that serves it.
    pub backend: BackendName,
    /// What the backend said of its model; a change of it starts a new epoch.
    pub fingerprint: String,
    /// The model's name on the wire.
    pub model: String,
    /// How tools are called.
    pub mode: ToolMode,
    /// The system message.
    pub system: RawMessage,
    /// What of memory is in it, as memory was when the epoch began.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub memory: String,
    /// The tools array as it goes over the wire; none in schema mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Arc<RawValue>>,
    /// Sampling and the other fields of a request that stay the same, as the members of a JSON
    /// object.
    pub fixed: Arc<RawValue>,
    /// How many tokens fit, if the backend says.
    pub context_tokens: Option<u64>,
    /// What took the place of the messages before it, where a summary did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compacted: Option<Compacted>,
}

/// A summary in the place of messages. These stay in the transcript; requests have them no more.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Compacted {
    /// The session's number for the model call that wrote the summary.
    pub model_call: ModelCallId,
    /// What the new epoch's conversation begins with: the summary in its frame, and the line by
    /// which the model has taken it in.
    pub messages: Vec<RawMessage>,
    /// How many of the last messages stay as they are. The message that the turn under way began
    /// with stays, too, wherever it stands.
    pub kept: u32,
    /// The session's label: whatever was read may be in the summary.
    pub label: Label,
    /// What the proxy measured.
    pub receipt: Receipt,
    /// What the summary cost.
    pub cost: MicroUsd,
}

/// A message that began a turn.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct User {
    /// The turn.
    pub turn: TurnId,
    /// The message's label.
    pub label: Label,
    /// What it says of memory before the person's own words, where that had changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Remembered>,
    /// The message.
    pub message: RawMessage,
}

/// How a session in the middle of an epoch was told that memory has changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remembered {
    /// What memory holds now, as the session may know it.
    pub now: String,
    /// What the message begins with, before the person's own words.
    pub notice: String,
}

impl User {
    /// The person's own words, without what stands before them about memory.
    pub fn words(&self) -> String {
        #[derive(Deserialize)]
        struct Content<'a> {
            #[serde(borrow, default)]
            content: Option<Cow<'a, str>>,
        }
        // A message of another shape has no words.
        let read: Result<Content<'_>, _> = serde_json::from_str(self.message.json());
        let content = read.ok().and_then(|read| read.content).unwrap_or_default();
        let notice = self.memory.as_ref().map(|memory| memory.notice.as_str());
        let words = notice.and_then(|notice| content.strip_prefix(notice));
        words.map_or_else(
            || content.to_string(),
            |words| words.trim_start().to_owned(),
        )
    }
}

/// A tool call with the number that the session gave it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumberedCall {
    /// The session's number for it.
    pub call: CallId,
    /// The call as the model wrote it.
    #[serde(flatten)]
    pub written: ToolCall,
}

/// How a reply that had to have a form got it: the rungs of the structured-output ladder, from the
/// one that is tried first to the one that always holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rung {
    /// The server held the reply to its schema.
    Schema,
    /// The model was made to call a tool, whose arguments are the value.
    ForcedTool,
    /// It was found within other text.
    Extracted,
    /// It fitted after changes that lose nothing, such as `"3"` for `3`.
    Coerced,
    /// It fitted after the model was shown what was wrong.
    Repaired,
    /// It never fitted, and the defined default took its place.
    Default,
}

/// An answer of the model.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Assistant {
    /// The turn.
    pub turn: TurnId,
    /// The session's number for the model call.
    pub model_call: ModelCallId,
    /// The message as it is sent back with every later request.
    pub message: RawMessage,
    /// What the model thought; kept for the owner.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reasoning: String,
    /// The tools it calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<NumberedCall>,
    /// How the reply got its form, in schema mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rung: Option<Rung>,
    /// What the proxy measured.
    pub receipt: Receipt,
    /// What it cost.
    pub cost: MicroUsd,
}

/// How a tool call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CallOutcome {
    /// It ran, and this is its result.
    Ok,
    /// It ran, or tried to, and failed.
    Failed,
    /// It was not allowed to run.
    Denied,
    /// Whether it took effect is unknown.
    Interrupted,
}

/// The end of a tool call.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Tool {
    /// The turn.
    pub turn: TurnId,
    /// Which call.
    pub call: CallId,
    /// The tool that ran: the inner one where it was called through `call_tool`.
    pub tool: ToolName,
    /// How it ended.
    pub outcome: CallOutcome,
    /// Why, unless it is ok.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// The result's label.
    pub label: Label,
    /// The result's length before it was capped, in bytes.
    pub raw_bytes: u64,
    /// The message that carries it to the model.
    pub message: RawMessage,
    /// The record of brokerd's decision in the audit log, if brokerd decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit: Option<u64>,
    /// What it cost, as far as that was counted: what was charged for a call of which nobody knows
    /// stands in the ledger.
    #[serde(default, skip_serializing_if = "MicroUsd::is_zero")]
    pub cost: MicroUsd,
}

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TurnOutcome {
    /// With an answer.
    Completed,
    /// Something went wrong; the code says what.
    Failed,
    /// A limit of the budget ended it.
    Halted,
    /// Somebody stopped it.
    Stopped,
    /// The conversation no longer fits.
    ContextFull,
}

impl TurnOutcome {
    /// The outcome as it is written in output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Halted => "halted",
            Self::Stopped => "stopped",
            Self::ContextFull => "context-full",
        }
    }
}

/// The end of a turn.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TurnEnd {
    /// The turn.
    pub turn: TurnId,
    /// How it ended.
    pub outcome: TurnOutcome,
    /// Why, unless it completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// Why, for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The session's label at the end.
    pub label: Label,
    /// What the turn used.
    pub usage: Usage,
    /// What it cost.
    pub cost: MicroUsd,
}

/// A line that can't be read as part of a transcript.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// Not JSON of the expected shape.
    #[error("not a transcript entry: {0}")]
    Shape(String),
    /// Written by a later Boxmaker.
    #[error("written in version {0} of the format; this Boxmaker reads up to {TRANSCRIPT_VERSION}")]
    TooNew(u32),
}

/// Reads one line, without its line end.
pub fn parse_line(line: &str) -> Result<Line, LineError> {
    /// What every line has; the rest depends on the kind.
    #[derive(Deserialize)]
    struct Head {
        v: u32,
        n: u64,
        ts: String,
        kind: Kind,
    }
    #[derive(Deserialize)]
    struct Version {
        v: u32,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Kind {
        Open,
        Epoch,
        User,
        Assistant,
        Tool,
        TurnEnd,
    }
    // The version first: a later one may have kinds that this Boxmaker has never heard of.
    let Version { v } = read(line)?;
    if v > TRANSCRIPT_VERSION {
        return Err(LineError::TooNew(v));
    }
    let Head { v, n, ts, kind } = read(line)?;
    let entry = match kind {
        Kind::Open => Entry::Open(read(line)?),
        Kind::Epoch => Entry::Epoch(read(line)?),
        Kind::User => Entry::User(read(line)?),
        Kind::Assistant => Entry::Assistant(read(line)?),
        Kind::Tool => Entry::Tool(read(line)?),
        Kind::TurnEnd => Entry::TurnEnd(read(line)?),
    };
    Ok(Line { v, n, ts, entry })
}

fn read<'a, T: Deserialize<'a>>(line: &'a str) -> Result<T, LineError> {
    serde_json::from_str(line).map_err(|error| LineError::Shape(error.to_string()))
}

impl<'de> Deserialize<'de> for Line {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        parse_line(raw.get()).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(entry: Entry) -> Line {
        let line = Line {
            v: TRANSCRIPT_VERSION,
            n: 7,
            ts: "2026-11-30T18:05:00.000Z".to_owned(),
            entry,
        };
        let text = serde_json::to_string(&line).unwrap();
        let back = parse_line(&text).unwrap();
        assert_eq!(serde_json::to_string(&back).unwrap(), text);
        back
    }

    #[test]
    fn raw_messages_survive_byte_for_byte() {
        let odd = r#"{"role":"user","content":"\u00e4\/ x","n":1.0e0}"#;
        let line = round_trip(Entry::User(User {
            turn: TurnId::FIRST,
            label: Label::OWNER,
            memory: None,
            message: serde_json::from_str(odd).unwrap(),
        }));
        assert!(matches!(line.entry, Entry::User(user) if user.message.json() == odd));
    }

    #[test]
    fn a_persons_words_stand_behind_what_is_said_of_memory() {
        let said = |memory: Option<Remembered>, text: &str| User {
            turn: TurnId::FIRST,
            label: Label::OWNER,
            memory,
            message: RawMessage::user(text),
        };
        let told = Remembered {
            now: "b".to_owned(),
            notice: "[b is new]".to_owned(),
        };
        assert_eq!(said(None, "[b is new]\n\nhi").words(), "[b is new]\n\nhi");
        let user = said(Some(told.clone()), "[b is new]\n\nhi\n");
        assert_eq!(user.words(), "hi\n");
        let line = round_trip(Entry::User(user));
        assert!(matches!(line.entry, Entry::User(user) if user.memory == Some(told)));
    }

    #[test]
    fn calls_of_an_answer_are_read_back() {
        let written = ToolCall {
            id: "call-3".into(),
            name: "clock".into(),
            arguments: "{not json".into(),
        };
        let line = round_trip(Entry::Assistant(Assistant {
            turn: TurnId(2),
            model_call: ModelCallId(4),
            message: RawMessage::assistant("", std::slice::from_ref(&written)),
            reasoning: String::new(),
            calls: vec![NumberedCall {
                call: CallId(3),
                written,
            }],
            rung: Some(Rung::Coerced),
            receipt: Receipt {
                slot: Some(0),
                prompt_tokens: 10,
                completion_tokens: 2,
                cache_n: None,
                prompt_n: Some(10),
                queue_ms: 0,
                prefill_ms: 1,
                decode_ms: 2,
                source: crate::usage::UsageSource::Reported,
                taken_over: false,
            },
            cost: MicroUsd::ZERO,
        }));
        assert!(matches!(line.entry, Entry::Assistant(a) if a.calls[0].call == CallId(3)));
    }

    #[test]
    fn what_is_no_line_is_refused_with_its_reason() {
        for bad in [
            "",
            "{",
            "[]",
            r#"{"v":1}"#,
            r#"{"v":1,"n":1,"ts":"","kind":"nope"}"#,
        ] {
            assert!(matches!(parse_line(bad), Err(LineError::Shape(_))), "{bad}");
        }
        let later = r#"{"v":2,"kind":"unheard-of"}"#;
        assert_eq!(parse_line(later).unwrap_err(), LineError::TooNew(2));
    }
}
