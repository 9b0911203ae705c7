//! What the index says of a session, as a fold over its entries.
//!
//! The index is never the truth: it can be made anew from the transcript at any time.

use bxcore::id::{CallId, EpochId, ModelCallId, SessionId, TurnId};
use bxcore::label::Label;
use bxcore::text::cap;
use bxcore::transcript::{Entry, Line};

/// The longest title, in bytes.
pub const MAX_TITLE_BYTES: usize = 80;

/// What is known of a session without its transcript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The session that asked for it.
    pub parent: Option<SessionId>,
    /// The join of everything in it.
    pub label: Label,
    /// The start of its first message.
    pub title: String,
    /// When its last entry was written; empty before the first.
    pub updated: String,
    /// The number of its last entry; 0 before the first.
    pub last_n: u64,
    /// How many turns it had.
    pub turns: u64,
    /// The highest number of a turn; 0 before the first.
    pub turn: TurnId,
    /// The highest number of an epoch; 0 before the first.
    pub epoch: EpochId,
    /// The highest number of a tool call; 0 before the first.
    pub call: CallId,
    /// The highest number of a model call; 0 before the first.
    pub model_call: ModelCallId,
    /// The turn that has no end yet.
    pub open_turn: Option<TurnId>,
}

impl Default for Summary {
    fn default() -> Self {
        Self {
            parent: None,
            label: Label::BOTTOM,
            title: String::new(),
            updated: String::new(),
            last_n: 0,
            turns: 0,
            turn: TurnId(0),
            epoch: EpochId(0),
            call: CallId(0),
            model_call: ModelCallId(0),
            open_turn: None,
        }
    }
}

impl Summary {
    /// Takes in the next line.
    pub fn add(&mut self, line: &Line) {
        self.last_n = line.n;
        self.updated.clone_from(&line.ts);
        match &line.entry {
            Entry::Open(open) => {
                self.parent.clone_from(&open.parent);
                self.label = self.label.join(open.label);
            }
            Entry::Epoch(epoch) => {
                self.epoch = self.epoch.max(epoch.epoch);
                if let Some(compacted) = &epoch.compacted {
                    self.model_call = self.model_call.max(compacted.model_call);
                    self.label = self.label.join(compacted.label);
                }
            }
            Entry::User(user) => {
                self.turns += 1;
                self.turn = self.turn.max(user.turn);
                self.open_turn = Some(user.turn);
                self.label = self.label.join(user.label);
                if self.title.is_empty() {
                    self.title = title(&user.words());
                }
            }
            Entry::Assistant(answer) => {
                self.model_call = self.model_call.max(answer.model_call);
                let highest = answer.calls.iter().map(|call| call.call).max();
                self.call = self.call.max(highest.unwrap_or(self.call));
            }
            Entry::Tool(tool) => {
                self.label = self.label.join(tool.label);
                self.call = self.call.max(tool.call);
            }
            Entry::TurnEnd(end) => {
                self.label = self.label.join(end.label);
                self.open_turn = None;
            }
        }
    }

    /// This summary, made anew from a transcript that may have lost entries, held to what was known
    /// before: a label never sinks and a number is never given twice.
    pub fn at_least(mut self, before: &Self) -> Self {
        self.label = self.label.join(before.label);
        self.turn = self.turn.max(before.turn);
        self.epoch = self.epoch.max(before.epoch);
        self.call = self.call.max(before.call);
        self.model_call = self.model_call.max(before.model_call);
        self
    }
}

/// The first line of a message that says something, on one line and short.
fn title(said: &str) -> String {
    let words = said
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty())
        .unwrap_or_default();
    let mut line = String::new();
    for word in words.split(|c: char| c.is_whitespace() || c.is_control()) {
        if line.len() > MAX_TITLE_BYTES {
            break;
        }
        if !word.is_empty() && !line.is_empty() {
            line.push(' ');
        }
        line.push_str(cap(word, MAX_TITLE_BYTES));
    }
    cap(&line, MAX_TITLE_BYTES).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bxcore::chat::RawMessage;
    use bxcore::label::Class;
    use bxcore::transcript::{Open, TRANSCRIPT_VERSION, TurnEnd, TurnOutcome, User};

    fn fold(entries: Vec<Entry>) -> Summary {
        let mut summary = Summary::default();
        for (n, entry) in (1..).zip(entries) {
            summary.add(&Line {
                v: TRANSCRIPT_VERSION,
                n,
                ts: format!("t{n}"),
                entry,
            });
        }
        summary
    }

    fn user(turn: u64, label: Label, text: &str) -> Entry {
        Entry::User(User {
            turn: TurnId(turn),
            label,
            memory: None,
            message: RawMessage::user(text),
        })
    }

    fn end(turn: u64) -> Entry {
        Entry::TurnEnd(TurnEnd {
            turn: TurnId(turn),
            outcome: TurnOutcome::Completed,
            code: None,
            detail: None,
            label: Label::OWNER,
            usage: bxcore::usage::Usage::default(),
            cost: bxcore::money::MicroUsd::ZERO,
        })
    }

    #[test]
    fn labels_join_and_a_turn_is_open_until_its_end() {
        let open = Entry::Open(Open {
            session: SessionId::new("a").unwrap(),
            parent: None,
            lineage: None,
            label: Label::BOTTOM,
        });
        let secret = Label::new(Class::Secret, false);
        let mut entries = vec![
            open,
            user(1, secret, "first"),
            end(1),
            user(2, Label::OWNER, "x"),
        ];
        let summary = fold(entries.clone());
        assert_eq!(summary.label, secret);
        assert_eq!(summary.open_turn, Some(TurnId(2)));
        assert_eq!((summary.title.as_str(), summary.last_n), ("first", 4));
        entries.push(end(2));
        assert_eq!(fold(entries).open_turn, None);
    }

    #[test]
    fn a_title_is_one_short_line() {
        let check = |text: &str, expect: &str| {
            assert_eq!(fold(vec![user(1, Label::OWNER, text)]).title, expect);
        };
        check("  \n\n What is\tthis?\nMore", "What is this?");
        check("a\u{1b}[31mb  c", "a [31mb c");
        check("", "");
        check(&"ü".repeat(100), &"ü".repeat(40));
        check(&"word ".repeat(30), "word ".repeat(16).trim_end());
    }

    #[test]
    fn what_was_known_is_never_undone() {
        let before = fold(vec![user(5, Label::TOP, "x")]);
        let after = fold(vec![user(4, Label::OWNER, "x")]).at_least(&before);
        assert_eq!((after.label, after.turn), (Label::TOP, TurnId(5)));
        assert_eq!(after.open_turn, Some(TurnId(4)));
    }
}
