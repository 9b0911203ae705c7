//! A session's conversation as the bytes of its next request.
//!
//! Built by folding the transcript's entries. A message is serialised once, when it is recorded;
//! a request is those bytes copied between a head and a tail.

use super::circles::Circles;
use super::message;
use super::offer::Offer;
use super::request::as_u64;
use bxcore::chat::RawMessage;
use bxcore::id::{BackendName, CallId, EpochId, ModelCallId, TurnId};
use bxcore::label::Label;
use bxcore::transcript::{Assistant, Entry, Line, Tool, ToolMode, TurnOutcome};
use serde_json::value::RawValue;
use std::sync::Arc;

/// What a template may write for a tool call beyond what the model wrote, in tokens.
const CALL_TOKENS: u64 = 48;

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
    /// What of memory is in its system message.
    pub memory: Arc<str>,
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
pub(super) const ANSWER: Kind = Kind::Assistant {
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
pub(super) struct Measured {
    pub(super) tokens: u64,
    pub(super) end: usize,
    /// What the template may add to the last answer beyond what was generated.
    pub(super) slack: u64,
}

/// A conversation. Cheap to keep: the bytes of its messages and a few words for each.
#[derive(Debug, Clone)]
pub struct Conversation {
    pub(super) epoch: Option<EpochFacts>,
    /// `{"model":"…","messages":[` and the messages, without the closing bracket.
    pub(super) head: Vec<u8>,
    /// Where the first message begins.
    pub(super) messages_at: usize,
    /// Where the system message ends.
    pub(super) system_end: usize,
    /// `],"tools":…` and the fixed members.
    pub(super) tail: Vec<u8>,
    /// The tools array of the epoch, and its fixed members.
    pub(super) tools: Option<Arc<RawValue>>,
    pub(super) fixed: Arc<RawValue>,
    pub(super) marks: Vec<Mark>,
    /// How many of the first messages stand for others that were summed up.
    pub(super) summed: usize,
    /// Which message the turn under way began with.
    pub(super) turn_at: Option<usize>,
    pub(super) measured: Option<Measured>,
    pub(super) offer: Offer,
    /// What the model was last told that memory holds.
    pub(super) known_memory: Arc<str>,
    label: Label,
    next_call: CallId,
    next_model_call: ModelCallId,
    next_turn: TurnId,
    last_slot: Option<u32>,
    circles: Circles,
}

impl Default for Conversation {
    fn default() -> Self {
        Self {
            epoch: None,
            head: Vec::new(),
            messages_at: 0,
            system_end: 0,
            tail: Vec::new(),
            tools: None,
            fixed: Arc::from(RawValue::NULL.to_owned()),
            marks: Vec::new(),
            summed: 0,
            turn_at: None,
            measured: None,
            offer: Offer::default(),
            known_memory: "".into(),
            label: Label::BOTTOM,
            next_call: CallId::FIRST,
            next_model_call: ModelCallId::FIRST,
            next_turn: TurnId::FIRST,
            last_slot: None,
            circles: Circles::default(),
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
            Entry::Epoch(epoch) => {
                self.begin_epoch(epoch);
                if let Some(compacted) = &epoch.compacted {
                    self.label = self.label.join(compacted.label);
                    let next = compacted.model_call.next();
                    self.next_model_call = self.next_model_call.max(next);
                }
            }
            Entry::User(user) => {
                self.label = self.label.join(user.label);
                self.next_turn = self.next_turn.max(user.turn.next());
                self.circles = Circles::default();
                self.offer.next_round();
                if let Some(memory) = &user.memory {
                    self.known_memory = memory.now.as_str().into();
                }
                self.turn_at = Some(self.marks.len());
                self.append(&user.message, Kind::User);
            }
            Entry::Assistant(assistant) => self.push_assistant(assistant),
            Entry::Tool(tool) => self.push_tool(tool),
            Entry::TurnEnd(end) => {
                self.label = self.label.join(end.label);
                self.next_turn = self.next_turn.max(end.turn.next());
                self.close_turn(end.outcome);
                self.turn_at = None;
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

    /// What the model was last told that memory holds.
    pub fn known_memory(&self) -> &str {
        &self.known_memory
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

    /// Whether the model goes in circles in the turn under way: it made the same calls again.
    pub fn goes_in_circles(&self) -> bool {
        self.circles.is_round()
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

    /// Where a message begins, with the comma before it.
    pub(super) fn begins(&self, at: usize) -> usize {
        let before = at.checked_sub(1).and_then(|before| self.marks.get(before));
        before.map_or(self.system_end, |mark| mark.end)
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
        self.offer.next_round();
        self.circles.note(calls.iter().map(|call| &call.written));
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
        self.offer.note(tool);
    }

    /// Lets the model have the last word of a turn that ended without an answer.
    fn close_turn(&mut self, outcome: TurnOutcome) {
        let answered = matches!(self.marks.last(), Some(Mark { kind: ANSWER, .. }));
        if outcome != TurnOutcome::Completed && !answered && self.epoch.is_some() {
            let message = message::no_answer(self.mode());
            self.append(&message, ANSWER);
        }
    }

    pub(super) fn append(&mut self, message: &RawMessage, kind: Kind) {
        self.append_bytes(message.json().as_bytes(), kind);
    }

    pub(super) fn append_bytes(&mut self, json: &[u8], kind: Kind) {
        self.head.push(b',');
        self.head.extend_from_slice(json);
        let end = self.head.len();
        self.marks.push(Mark { end, kind });
    }
}
