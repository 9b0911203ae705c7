//! The messages of a body, checked while they are read and not kept. Pure.
//!
//! Only text is admitted: a picture or a sound is named by an address, which a model server would
//! fetch by itself, past every rule about what may leave the box.

use serde::Deserialize;
use serde::de::{self, Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// A list of messages that may be sent.
pub(super) struct Messages;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Message<'a> {
    #[serde(rename = "role")]
    _role: Role,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    reasoning_content: Option<&'a RawValue>,
    #[serde(default, rename = "tool_calls")]
    _tool_calls: Option<Vec<IgnoredAny>>,
    #[serde(borrow, default)]
    tool_call_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    name: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Role {
    System,
    User,
    Assistant,
    Tool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Part<'a> {
    #[serde(rename = "type")]
    _kind: PartKind,
    #[serde(borrow)]
    text: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum PartKind {
    Text,
}

impl Message<'_> {
    fn is_text(&self) -> bool {
        let texts = [self.reasoning_content, self.tool_call_id, self.name];
        texts.into_iter().flatten().all(is_string) && self.content.is_none_or(is_text)
    }
}

fn is_string(value: &RawValue) -> bool {
    value.get().starts_with('"')
}

fn is_text(content: &RawValue) -> bool {
    is_string(content)
        || serde_json::from_str::<Vec<Part<'_>>>(content.get())
            .is_ok_and(|parts| parts.iter().all(|part| is_string(part.text)))
}

impl<'de> Deserialize<'de> for Messages {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(MessagesVisitor)
    }
}

struct MessagesVisitor;

impl<'de> Visitor<'de> for MessagesVisitor {
    type Value = Messages;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of messages")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut messages: A) -> Result<Messages, A::Error> {
        let mut count = 0_usize;
        // Bounded by the size of a body.
        while let Some(message) = messages.next_element::<Message<'de>>()? {
            if !message.is_text() {
                let why = format!("message {count} has something else than text");
                return Err(de::Error::custom(why));
            }
            count += 1;
        }
        if count == 0 {
            return Err(de::Error::custom("`messages` is empty"));
        }
        Ok(Messages)
    }
}
