//! A session's conversation as the bytes of its next request.
//!
//! Built by folding the transcript's entries. A message is serialised once, when it is recorded;
//! a request is those bytes copied between a head and a tail.

use super::convert;
use super::message;
use super::schema::reply_format;
use crate::tools::Catalog;
use bxcore::chat::RawMessage;
use bxcore::id::{BackendName, CallId, EpochId, ModelCallId, TurnId};
use bxcore::label::Label;
use bxcore::tool::ToolSpec;
use bxcore::transcript::{
    Assistant, CallOutcome, Entry, Epoch, EpochReason, Line, Tool, ToolMode, TurnOutcome,
};
use bytes::Bytes;
use std::io::Write as _;

/// What a request may have beyond the bytes of its messages, in tokens: the template's own words.
const TEMPLATE_TOKENS: u64 = 256;
/// What a template may write for a tool call beyond what the model wrote, in tokens.
const CALL_TOKENS: u64 = 48;
/// The most found tools that a reply in schema mode can choose from; the latest found stay.
const MAX_FOUND_TOOLS: usize = 24;

/// What an epoch fixed, as far as others need to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EpochFacts {
    /// Which epoch.
    pub id: EpochId,
    /// The backend that serves it.
    pub backend: BackendName,
    /// What the backend said of its model.
    pub fingerprint: String,
    /// The model's name on the wire.
    pub model: String,
    /// How tools are called.
    pub mode: ToolMode,
    /// How many tokens fit, if the backend says.
    pub context_tokens: Option<u64>,
}

/// Whether a model call may still ask for tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// It may call tools or answer.
    Open,
    /// It may only answer.
    Last,
}

/// What one request has that the next need not have.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// The slot, on a backend that has slots.
    pub slot: Option<u32>,
    /// The most tokens of the answer.
    pub max_tokens: u32,
    /// Whether tools may be called.
    pub stage: Stage,
    /// The tools whose schemas a found name stands for.
    pub catalog: &'a Catalog,
}

/// What kind of message ends at a place, and what is needed to write it in another mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The owner's, or another person's.
    User,
    /// The model's, with the number of its first call and how many there are.
    Assistant {
        /// The first call; none in an answer.
        first_call: Option<CallId>,
        /// How many calls.
        calls: usize,
    },
    /// A tool's result.
    Tool {
        /// The call.
        call: CallId,
    },
}

/// An answer of the model.
const ANSWER: Kind = Kind::Assistant {
    first_call: None,
    calls: 0,
};

#[derive(Debug, Clone, Copy)]
pub(super) struct Mark {
    pub(super) end: usize,
    pub(super) kind: Kind,
}

/// Token counts that the server reported, and up to where in the messages they reach.
#[derive(Debug, Clone, Copy)]
struct Measured {
    tokens: u64,
    end: usize,
    /// What the template may add to the last answer beyond what was generated.
    slack: u64,
}

/// A conversation. Cheap to keep: the bytes of its messages and a few words for each.
#[derive(Debug, Clone)]
pub struct Conversation {
    epoch: Option<EpochFacts>,
    /// `{"model":"…","messages":[` and the messages, without the closing bracket.
    head: Vec<u8>,
    /// Where the first message begins.
    messages_at: usize,
    /// Where the system message ends.
    system_end: usize,
    /// `],"tools":…` and the fixed members.
    tail: Vec<u8>,
    marks: Vec<Mark>,
    measured: Option<Measured>,
    found: Vec<String>,
    label: Label,
    next_call: CallId,
    next_model_call: ModelCallId,
    next_turn: TurnId,
    last_slot: Option<u32>,
    repeats: Repeats,
}

/// How often in a row the model has called the same tools with the same arguments.
#[derive(Debug, Clone, Default)]
struct Repeats {
    calls: Vec<(String, String)>,
    times: u32,
}

impl Repeats {
    fn note(&mut self, calls: Vec<(String, String)>) {
        if calls.is_empty() || calls != self.calls {
            self.times = 0;
        }
        self.times += u32::from(!calls.is_empty());
        self.calls = calls;
    }
}

impl Default for Conversation {
    fn default() -> Self {
        Self {
            epoch: None,
            head: Vec::new(),
            messages_at: 0,
            system_end: 0,
            tail: Vec::new(),
            marks: Vec::new(),
            measured: None,
            found: Vec::new(),
            label: Label::BOTTOM,
            next_call: CallId::FIRST,
            next_model_call: ModelCallId::FIRST,
            next_turn: TurnId::FIRST,
            last_slot: None,
            repeats: Repeats::default(),
        }
    }
}

impl Conversation {
    /// Folds a whole transcript.
    pub fn from_lines(lines: &[Line]) -> Self {
        let mut conversation = Self::default();
        for line in lines {
            conversation.push(&line.entry);
        }
        conversation
    }

    /// Adds what one entry says.
    pub fn push(&mut self, entry: &Entry) {
        match entry {
            Entry::Open(open) => self.label = self.label.join(open.label),
            Entry::Epoch(epoch) => self.begin_epoch(epoch),
            Entry::User(user) => {
                self.label = self.label.join(user.label);
                self.next_turn = self.next_turn.max(user.turn.next());
                self.repeats = Repeats::default();
                self.append(&user.message, Kind::User);
            }
            Entry::Assistant(assistant) => self.push_assistant(assistant),
            Entry::Tool(tool) => self.push_tool(tool),
            Entry::TurnEnd(end) => {
                self.label = self.label.join(end.label);
                self.next_turn = self.next_turn.max(end.turn.next());
                self.close_turn(end.outcome);
            }
        }
    }

    /// What the epoch under way fixed; none before the first one.
    pub fn epoch(&self) -> Option<&EpochFacts> {
        self.epoch.as_ref()
    }

    /// How tools are called now.
    pub fn mode(&self) -> ToolMode {
        self.epoch
            .as_ref()
            .map_or(ToolMode::Native, |epoch| epoch.mode)
    }

    /// The join of everything that was read, as far as the transcript knows.
    pub fn label(&self) -> Label {
        self.label
    }

    /// The number for the next tool call.
    pub fn next_call(&self) -> CallId {
        self.next_call
    }

    /// The number for the next model call, as far as the transcript knows; a call that was
    /// reserved and lost may have had it already.
    pub fn next_model_call(&self) -> ModelCallId {
        self.next_model_call
    }

    /// The number for the next turn.
    pub fn next_turn(&self) -> TurnId {
        self.next_turn
    }

    /// Leaves out numbers that are in use although no entry has them: those of an earlier session of
    /// this name, and of model calls whose answer was never stored.
    pub fn skip_to(&mut self, turn: TurnId, call: CallId, model_call: ModelCallId) {
        self.next_turn = self.next_turn.max(turn);
        self.next_call = self.next_call.max(call);
        self.next_model_call = self.next_model_call.max(model_call);
    }

    /// How often in a row, in the turn under way, the model has made the very same calls.
    pub fn repeats(&self) -> u32 {
        self.repeats.times
    }

    /// The slot that the last answer came from, if that is known.
    pub fn last_slot(&self) -> Option<u32> {
        self.last_slot
    }

    /// The serialised messages, without the brackets around them.
    pub fn messages(&self) -> &[u8] {
        self.head.get(self.messages_at..).unwrap_or_default()
    }

    /// How many bytes the conversation keeps in memory, about.
    pub fn held_bytes(&self) -> usize {
        self.head.capacity() + self.tail.capacity() + self.marks.capacity() * size_of::<Mark>()
    }

    /// Gives back memory that was kept for growing.
    pub fn shrink(&mut self) {
        self.head.shrink_to_fit();
        self.marks.shrink_to_fit();
    }

    /// The most tokens that the prompt of the next request can have.
    ///
    /// What the server reported last, and a token for every byte since: no tokeniser makes more.
    pub fn prompt_bound(&self) -> u64 {
        let (known, from) = match self.measured {
            Some(measured) => (measured.tokens + measured.slack, measured.end),
            None => (as_u64(self.tail.len()), self.messages_at),
        };
        let bound = known + as_u64(self.head.len() - from) + TEMPLATE_TOKENS;
        match self.epoch.as_ref().and_then(|epoch| epoch.context_tokens) {
            Some(most) => bound.min(most),
            None => bound,
        }
    }

    /// How many tokens an answer could still have before the context is full, at a guess; none
    /// where the backend doesn't say how many fit.
    pub fn room(&self) -> Option<u64> {
        /// Bytes in a token: fewer than in any ordinary text, so that the guess is on the safe side.
        const BYTES_PER_TOKEN: u64 = 3;
        let context = self.epoch.as_ref()?.context_tokens?;
        let (known, from) = match self.measured {
            Some(measured) => (measured.tokens, measured.end),
            None => (as_u64(self.tail.len()) / BYTES_PER_TOKEN, self.messages_at),
        };
        let likely = known + as_u64(self.head.len() - from) / BYTES_PER_TOKEN;
        Some(context.saturating_sub(likely))
    }

    /// The body of the next request.
    ///
    /// The members that stay the same come first and in a fixed order; those that may differ from
    /// one request to the next come last.
    pub fn body(&self, call: &Call<'_>) -> Bytes {
        const MEMBERS_BYTES: usize = 128;
        let mut varying: Vec<u8> = Vec::with_capacity(MEMBERS_BYTES);
        // Writing to a vector never fails.
        let _ = write!(varying, ",\"max_tokens\":{}", call.max_tokens);
        if let Some(slot) = call.slot {
            let _ = write!(varying, ",\"id_slot\":{slot}");
        }
        match (self.mode(), call.stage) {
            (ToolMode::Native, Stage::Open) => {}
            (ToolMode::Native, Stage::Last) => {
                varying.extend_from_slice(b",\"tool_choice\":\"none\"");
            }
            (ToolMode::Schema, stage) => {
                let found = self.found(call.catalog);
                let format = reply_format(&found, stage, call.max_tokens);
                let _ = write!(varying, ",\"response_format\":{format}");
            }
        }
        varying.push(b'}');
        let mut body = Vec::with_capacity(self.head.len() + self.tail.len() + varying.len());
        body.extend_from_slice(&self.head);
        body.extend_from_slice(&self.tail);
        body.extend_from_slice(&varying);
        Bytes::from(body)
    }

    /// The tools that `find_tool` gave in this conversation and that still exist.
    fn found<'a>(&self, catalog: &'a Catalog) -> Vec<&'a ToolSpec> {
        self.found
            .iter()
            .filter_map(|name| catalog.get(name))
            .collect()
    }

    /// Whether an epoch would start with the same bytes as the one under way.
    pub(super) fn starts_like(&self, epoch: &Epoch) -> bool {
        let system = self.head.get(self.messages_at..self.system_end);
        system == Some(epoch.system.json().as_bytes())
            && self.tail == tail(epoch)
            && self.epoch.as_ref().map(|current| current.context_tokens)
                == Some(epoch.context_tokens)
    }

    fn begin_epoch(&mut self, epoch: &Epoch) {
        let before = self.mode();
        let messages: Vec<(RawOrSame, Kind)> = match epoch.reason {
            EpochReason::Compacted => {
                self.found.clear();
                Vec::new()
            }
            _ => self.rewritten(before, epoch.mode),
        };
        let old = std::mem::take(&mut self.head);
        self.marks.clear();
        self.measured = None;
        self.head = head(&epoch.model);
        self.messages_at = self.head.len();
        self.tail = tail(epoch);
        self.head.extend_from_slice(epoch.system.json().as_bytes());
        self.system_end = self.head.len();
        self.epoch = Some(EpochFacts {
            id: epoch.epoch,
            backend: epoch.backend.clone(),
            fingerprint: epoch.fingerprint.clone(),
            model: epoch.model.clone(),
            mode: epoch.mode,
            context_tokens: epoch.context_tokens,
        });
        for (message, kind) in messages {
            match message {
                RawOrSame::Raw(message) => self.append(&message, kind),
                RawOrSame::Same(from, to) => {
                    self.append_bytes(old.get(from..to).unwrap_or_default(), kind);
                }
            }
        }
    }

    /// The messages after the system's, in the form of a mode.
    fn rewritten(&self, before: ToolMode, after: ToolMode) -> Vec<(RawOrSame, Kind)> {
        let mut from = self.system_end;
        let mut messages = Vec::with_capacity(self.marks.len());
        for mark in &self.marks {
            // A comma stands before each message.
            let start = from + 1;
            let message = if before == after {
                RawOrSame::Same(start, mark.end)
            } else {
                let bytes = self.head.get(start..mark.end).unwrap_or_default();
                RawOrSame::Raw(convert::message(bytes, mark.kind, after))
            };
            messages.push((message, mark.kind));
            from = mark.end;
        }
        messages
    }

    fn push_assistant(&mut self, assistant: &Assistant) {
        let calls = &assistant.calls;
        for call in calls {
            self.next_call = self.next_call.max(call.call.next());
        }
        self.next_model_call = self.next_model_call.max(assistant.model_call.next());
        let first_call = calls.first().map(|call| call.call);
        let kind = Kind::Assistant {
            first_call,
            calls: calls.len(),
        };
        self.append(&assistant.message, kind);
        self.last_slot = assistant.receipt.slot;
        let written = calls.iter().map(|call| &call.written);
        self.repeats.note(
            written
                .map(|call| (call.name.clone(), call.arguments.clone()))
                .collect(),
        );
        let usage = assistant.receipt.usage();
        self.measured = (usage.prompt_tokens > 0).then(|| Measured {
            slack: CALL_TOKENS * as_u64(calls.len()),
            tokens: usage.tokens(),
            end: self.head.len(),
        });
    }

    fn push_tool(&mut self, tool: &Tool) {
        self.label = self.label.join(tool.label);
        self.append(&tool.message, Kind::Tool { call: tool.call });
        if tool.tool.as_str() == "find_tool" && tool.outcome == CallOutcome::Ok {
            for name in convert::found_names(tool.message.json()) {
                self.found.retain(|known| *known != name);
                self.found.push(name);
            }
            let surplus = self.found.len().saturating_sub(MAX_FOUND_TOOLS);
            self.found.drain(..surplus);
        }
    }

    /// Lets the model have the last word of a turn that ended without an answer.
    fn close_turn(&mut self, outcome: TurnOutcome) {
        let answered = matches!(self.marks.last(), Some(Mark { kind: ANSWER, .. }));
        if outcome != TurnOutcome::Completed && !answered && self.epoch.is_some() {
            let message = message::no_answer(self.mode());
            self.append(&message, ANSWER);
        }
    }

    fn append(&mut self, message: &RawMessage, kind: Kind) {
        self.append_bytes(message.json().as_bytes(), kind);
    }

    fn append_bytes(&mut self, json: &[u8], kind: Kind) {
        self.head.push(b',');
        self.head.extend_from_slice(json);
        let end = self.head.len();
        self.marks.push(Mark { end, kind });
    }
}

/// A message of the last epoch in the next one: written anew, or the same bytes.
enum RawOrSame {
    Raw(RawMessage),
    Same(usize, usize),
}

fn head(model: &str) -> Vec<u8> {
    let model = serde_json::Value::from(model);
    format!("{{\"model\":{model},\"messages\":[").into_bytes()
}

fn tail(epoch: &Epoch) -> Vec<u8> {
    let mut tail = vec![b']'];
    if let Some(tools) = &epoch.tools {
        tail.extend_from_slice(b",\"tools\":");
        tail.extend_from_slice(tools.get().as_bytes());
    }
    let fixed = epoch.fixed.get().trim();
    let members = fixed
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'));
    if let Some(members) = members.map(str::trim).filter(|members| !members.is_empty()) {
        tail.push(b',');
        tail.extend_from_slice(members.as_bytes());
    }
    tail
}

fn as_u64(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
