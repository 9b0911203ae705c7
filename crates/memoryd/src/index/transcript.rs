//! From the lines of a transcript to passages. Pure.
//!
//! A turn is taken in when it has ended: only then is it known what its answers were made from.

use bxcore::chat::RawMessage;
use bxcore::id::TurnId;
use bxcore::label::Label;
use bxcore::text::{cap, unframed};
use bxcore::tool::CORE_TOOLS;
use bxcore::transcript::{Entry, ToolMode, parse_line};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;

/// The longest line of a transcript that is read, in bytes.
pub const MAX_LINE_BYTES: usize = 32 * 1024 * 1024;
/// How much of one message can be found again, in bytes.
pub const MAX_PASSAGE_BYTES: usize = 16 * 1024;
/// The most passages of one turn; of the others nothing is kept.
const MAX_TURN_PASSAGES: usize = 1_000;

/// A text that can be found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Passage {
    /// Where in its source: the number of a turn, or the id of an entry.
    pub(super) place: String,
    /// Whose words they are.
    pub(super) who: String,
    /// When, RFC 3339.
    pub(super) time: String,
    pub(super) label: Label,
    pub(super) text: String,
}

/// What a transcript has said up to a place, as far as later lines depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Said {
    /// The join of everything that was read.
    label: Label,
    mode: ToolMode,
}

impl Default for Said {
    fn default() -> Self {
        Self {
            label: Label::BOTTOM,
            mode: ToolMode::Native,
        }
    }
}

/// Takes in the lines of one transcript, one after the other.
#[derive(Debug, Default)]
pub(super) struct Listener {
    said: Said,
    /// Of the turn that has not ended, with whether a model wrote it.
    turn: Vec<(Passage, Written)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    ByModel,
    ByOther,
}

impl Listener {
    /// Goes on where an earlier one was.
    pub(super) fn resume(said: Said) -> Self {
        Self {
            said,
            turn: Vec::new(),
        }
    }

    /// Takes in a line; gives the passages of a turn that ends with it, and what was said so far.
    pub(super) fn line(&mut self, line: &str) -> Option<(Vec<Passage>, Said)> {
        let Ok(line) = parse_line(line) else {
            self.unreadable();
            return None;
        };
        match line.entry {
            Entry::Open(open) => self.join(open.label),
            Entry::Epoch(epoch) => {
                self.said.mode = epoch.mode;
                if let Some(compacted) = epoch.compacted {
                    self.join(compacted.label);
                }
            }
            Entry::User(user) => {
                self.join(user.label);
                let text = user.words();
                self.push(
                    user.turn,
                    "owner",
                    &line.ts,
                    user.label,
                    &text,
                    Written::ByOther,
                );
            }
            Entry::Assistant(answer) => {
                let text = answered(self.said.mode, &content(&answer.message));
                let label = self.said.label;
                self.push(
                    answer.turn,
                    "assistant",
                    &line.ts,
                    label,
                    &text,
                    Written::ByModel,
                );
            }
            Entry::Tool(tool) => {
                self.join(tool.label);
                let name = tool.tool.as_str();
                // What memory and the clock answered was found once and needs not be found again.
                if !CORE_TOOLS.contains(&name) {
                    let text = content(&tool.message);
                    let label = self.said.label;
                    self.push(
                        tool.turn,
                        name,
                        &line.ts,
                        label,
                        unframed(&text),
                        Written::ByOther,
                    );
                }
            }
            Entry::TurnEnd(end) => {
                self.join(end.label);
                return Some((self.end_turn(), self.said));
            }
        }
        None
    }

    /// A line that can't be read may have said anything: from here on everything counts as the worst.
    pub(super) fn unreadable(&mut self) {
        self.join(Label::TOP);
    }

    fn join(&mut self, label: Label) {
        self.said.label = self.said.label.join(label);
    }

    fn push(
        &mut self,
        turn: TurnId,
        who: &str,
        time: &str,
        label: Label,
        text: &str,
        written: Written,
    ) {
        if text.trim().is_empty() || self.turn.len() >= MAX_TURN_PASSAGES {
            return;
        }
        let passage = Passage {
            place: turn.to_string(),
            who: who.to_owned(),
            time: time.to_owned(),
            label,
            text: cap(text, MAX_PASSAGE_BYTES).to_owned(),
        };
        self.turn.push((passage, written));
    }

    /// What a model wrote carries what its session had read at the end of the turn: a model call to
    /// a provider raises the label by itself, and its entry does not say so.
    fn end_turn(&mut self) -> Vec<Passage> {
        let label = self.said.label;
        let labelled = |(passage, written): (Passage, Written)| match written {
            Written::ByModel => Passage { label, ..passage },
            Written::ByOther => passage,
        };
        std::mem::take(&mut self.turn)
            .into_iter()
            .map(labelled)
            .collect()
    }
}

fn content(message: &RawMessage) -> String {
    #[derive(Deserialize)]
    struct Content<'a> {
        #[serde(borrow, default)]
        content: Option<Cow<'a, str>>,
    }
    // A message of another shape has no text of its own.
    let read: Result<Content<'_>, _> = serde_json::from_str(message.json());
    let content = read.ok().and_then(|read| read.content);
    content.unwrap_or_default().into_owned()
}

/// What a model said to the person. In schema mode that is one member of what it wrote; a call has
/// none.
fn answered(mode: ToolMode, content: &str) -> String {
    match (mode, serde_json::from_str::<Value>(content)) {
        (ToolMode::Schema, Ok(Value::Object(reply))) => {
            let answer = reply.get("answer").and_then(Value::as_str);
            answer.unwrap_or_default().to_owned()
        }
        _ => content.to_owned(),
    }
}

#[cfg(test)]
mod tests;
