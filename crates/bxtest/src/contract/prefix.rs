//! The prefix contract: a request extends its conversation's previous one byte for byte.
//!
//! A request names no session, so conversations are told apart by their bytes. A *head* is the
//! latest request of one conversation. A request with an assistant message must extend a head, which
//! it then replaces; one without opens a conversation. So a rewritten answer, a clock in the system
//! prompt or a tool result that changed later can't pass as a new conversation.

use bytes::Bytes;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};

use super::body::Body;
use super::breach::BreachKind;

/// Fields that may differ from one request of a conversation to the next.
///
/// `tool_choice` and `response_format`, or a `grammar` in its place, by the contract itself; `max_tokens` because a budget that is
/// nearly used up shrinks the reply; `id_slot` because a session may have to yield its slot.
pub const MAY_CHANGE: [&str; 7] = [
    "messages",
    "tool_choice",
    "response_format",
    "grammar",
    "max_tokens",
    "max_completion_tokens",
    "id_slot",
];

/// Whether two conversations may open with the same bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Openers {
    /// They may: an opener that repeats may be another session's.
    #[default]
    MayRepeat,
    /// Every session of this test opens differently, so a repeated opener is a retry. Stricter.
    Distinct,
}

/// How a request hangs together with those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// The conversation's number, in order of appearance.
    pub conversation: usize,
    /// The request that this one extends.
    pub extends: Option<usize>,
    /// Bytes of messages that were not in that request.
    pub appended_bytes: usize,
}

#[derive(Debug, Clone)]
struct Head {
    seq: usize,
    conversation: usize,
    messages: Bytes,
    frozen: Vec<(String, Bytes)>,
    cut_short: bool,
}

/// The heads of all conversations seen so far.
#[derive(Debug, Default)]
pub(super) struct Heads {
    by_hash: HashMap<u64, Vec<Head>>,
    conversations: usize,
    openers: Openers,
}

impl Heads {
    pub(super) fn new(openers: Openers) -> Self {
        Self {
            openers,
            ..Self::default()
        }
    }

    /// Notes that request `seq` never got its whole answer: the same bytes again are a retry.
    pub(super) fn cut_short(&mut self, seq: usize) {
        for head in self.by_hash.values_mut().flatten() {
            if head.seq == seq {
                head.cut_short = true;
            }
        }
    }

    /// Takes the next request. A breach leaves the heads as they were.
    pub(super) fn observe(
        &mut self,
        seq: usize,
        body: &Body,
    ) -> Result<Link, (BreachKind, String)> {
        let messages = body.open_messages();
        let frozen = frozen(body);
        let opens = !body
            .messages()
            .iter()
            .any(|message| message["role"] == "assistant");
        let best = self.candidates(&messages, body.message_ends());
        let same = best.iter().find(|(_, head)| head.frozen == frozen);
        let Some((hash, head)) = same.map(|(hash, head)| (*hash, (*head).clone())) else {
            if opens {
                return Ok(self.open(seq, messages, frozen));
            }
            return Err(match best.first() {
                Some((_, head)) => (BreachKind::Frozen, changed(head, &frozen)),
                None => (BreachKind::Prefix, self.diverged(&messages)),
            });
        };
        let repeats = head.messages.len() == messages.len();
        let retry = repeats && (head.cut_short || self.openers == Openers::Distinct);
        if opens && !retry {
            // Another session may open like this one: its head stays.
            let link = Link {
                extends: Some(head.seq),
                appended_bytes: messages.len() - head.messages.len(),
                ..self.open(seq, messages, frozen)
            };
            return Ok(link);
        }
        let heads = self.by_hash.entry(hash).or_default();
        heads.retain(|other| other.seq != head.seq);
        let link = Link {
            conversation: head.conversation,
            extends: Some(head.seq),
            appended_bytes: messages.len() - head.messages.len(),
        };
        self.put(Head {
            seq,
            conversation: head.conversation,
            messages,
            frozen,
            cut_short: false,
        });
        Ok(link)
    }

    /// Takes a request as the first of a new conversation, whatever it holds.
    pub(super) fn start(&mut self, seq: usize, body: &Body) -> Link {
        self.open(seq, body.open_messages(), frozen(body))
    }

    fn open(&mut self, seq: usize, messages: Bytes, frozen: Vec<(String, Bytes)>) -> Link {
        let conversation = self.conversations;
        self.conversations += 1;
        let appended_bytes = messages.len();
        self.put(Head {
            seq,
            conversation,
            messages,
            frozen,
            cut_short: false,
        });
        Link {
            conversation,
            extends: None,
            appended_bytes,
        }
    }

    fn put(&mut self, head: Head) {
        let mut hasher = DefaultHasher::new();
        hasher.write(&head.messages);
        self.by_hash.entry(hasher.finish()).or_default().push(head);
    }

    /// Heads that are a byte prefix of `messages`, the longest first, the newest first among equals.
    fn candidates(&self, messages: &[u8], ends: &[usize]) -> Vec<(u64, &Head)> {
        let mut hasher = DefaultHasher::new();
        let mut from = 0;
        let mut found = Vec::new();
        for &end in ends {
            hasher.write(&messages[from..end]);
            from = end;
            let hash = hasher.clone().finish();
            for head in self.by_hash.get(&hash).into_iter().flatten() {
                if head.messages == messages[..end] {
                    found.push((hash, head));
                }
            }
        }
        found.reverse();
        found
    }

    /// Where `messages` leaves the nearest head, for the message of a breach.
    fn diverged(&self, messages: &[u8]) -> String {
        let common = |head: &Head| {
            head.messages
                .iter()
                .zip(messages)
                .take_while(|(left, right)| left == right)
                .count()
        };
        let nearest = self
            .by_hash
            .values()
            .flatten()
            .max_by_key(|head| (common(head), head.seq));
        let Some(head) = nearest else {
            return "a conversation with answers, of which nothing was seen before".to_owned();
        };
        let at = common(head);
        format!(
            "leaves request {} at byte {at} of {}: there `{}`, here `{}`",
            head.seq,
            head.messages.len(),
            around(&head.messages, at),
            around(messages, at),
        )
    }
}

fn frozen(body: &Body) -> Vec<(String, Bytes)> {
    body.fields()
        .iter()
        .filter(|(key, _)| !MAY_CHANGE.contains(&key.as_str()))
        .cloned()
        .collect()
}

fn changed(head: &Head, frozen: &[(String, Bytes)]) -> String {
    let value = |fields: &[(String, Bytes)], key: &str| {
        fields
            .iter()
            .find(|(name, _)| name == key)
            .map_or_else(|| "nothing".to_owned(), |(_, bytes)| around(bytes, 0))
    };
    let keys = head
        .frozen
        .iter()
        .chain(frozen)
        .map(|(key, _)| key.as_str());
    let mut differ: Vec<String> = keys
        .filter(|key| value(&head.frozen, key) != value(frozen, key) || !same(head, frozen, key))
        .map(|key| {
            format!(
                "`{key}` was {}, is {}",
                value(&head.frozen, key),
                value(frozen, key)
            )
        })
        .collect();
    differ.sort();
    differ.dedup();
    if differ.is_empty() {
        differ.push("the order of the fields changed".to_owned());
    }
    format!("against request {}: {}", head.seq, differ.join("; "))
}

fn same(head: &Head, frozen: &[(String, Bytes)], key: &str) -> bool {
    let get = |fields: &[(String, Bytes)]| {
        fields
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, bytes)| bytes.clone())
    };
    get(&head.frozen) == get(frozen)
}

fn around(bytes: &[u8], at: usize) -> String {
    const BEFORE_BYTES: usize = 24;
    const AFTER_BYTES: usize = 48;
    let from = at.saturating_sub(BEFORE_BYTES);
    let to = (at + AFTER_BYTES).min(bytes.len());
    String::from_utf8_lossy(&bytes[from.min(to)..to]).into_owned()
}
