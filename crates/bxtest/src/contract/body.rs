//! A request body as bytes: where each top-level field and each message stands in it.
//!
//! Nothing here re-serialises: whatever is compared later is a slice of what was sent.

use bytes::Bytes;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use std::fmt;

use super::breach::BreachKind;

/// A parsed request body that still knows its bytes.
#[derive(Debug, Clone)]
pub struct Body {
    raw: Bytes,
    fields: Vec<(String, Bytes)>,
    messages: Bytes,
    ends: Vec<usize>,
    value: Value,
}

impl Body {
    /// Takes a body apart. Gives the kind and the detail of the breach when it can't be.
    pub fn parse(raw: Bytes) -> Result<Self, (BreachKind, String)> {
        let top: RawObject<'_> = serde_json::from_slice(&raw).map_err(|error| not_json(&error))?;
        if let Some(key) = top.duplicate() {
            return Err((BreachKind::DuplicateKey, format!("`{key}` stands twice")));
        }
        let slice = |value: &RawValue| raw.slice_ref(value.get().as_bytes());
        let fields: Vec<_> = top
            .0
            .iter()
            .map(|(key, value)| (key.clone(), slice(value)))
            .collect();
        let messages = fields
            .iter()
            .find(|(key, _)| key == "messages")
            .map(|(_, bytes)| bytes.clone())
            .ok_or_else(|| (BreachKind::FieldAbsent, "no `messages`".to_owned()))?;
        let ends = message_ends(&messages)?;
        let value: Value = serde_json::from_slice(&raw).map_err(|error| not_json(&error))?;
        Ok(Self {
            raw,
            fields,
            messages,
            ends,
            value,
        })
    }

    /// The whole body as it was sent.
    pub fn raw(&self) -> &Bytes {
        &self.raw
    }

    /// The body as a value, for looking at its content.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// The top-level fields in the order sent, each as its bytes.
    pub fn fields(&self) -> &[(String, Bytes)] {
        &self.fields
    }

    /// The bytes of one top-level field.
    pub fn field(&self, name: &str) -> Option<&Bytes> {
        self.fields
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, bytes)| bytes)
    }

    /// The serialised messages up to the end of the last one: the array less its closing bracket.
    pub fn open_messages(&self) -> Bytes {
        self.messages
            .slice(..self.ends.last().copied().unwrap_or(0))
    }

    /// Where each message ends within [`Body::open_messages`].
    pub fn message_ends(&self) -> &[usize] {
        &self.ends
    }

    /// The messages as values; empty when the field is no array.
    pub fn messages(&self) -> &[Value] {
        self.value["messages"].as_array().map_or(&[], Vec::as_slice)
    }
}

fn not_json(error: &serde_json::Error) -> (BreachKind, String) {
    (BreachKind::NotJson, error.to_string())
}

fn message_ends(messages: &Bytes) -> Result<Vec<usize>, (BreachKind, String)> {
    let items: Vec<&RawValue> = serde_json::from_slice(messages).map_err(|error| {
        (
            BreachKind::Messages,
            format!("`messages` is no array: {error}"),
        )
    })?;
    let base = messages.as_ptr().addr();
    Ok(items
        .iter()
        .map(|item| item.get().as_ptr().addr() + item.get().len() - base)
        .collect())
}

/// An object's members as they stand, duplicates included.
struct RawObject<'a>(Vec<(String, &'a RawValue)>);

impl RawObject<'_> {
    fn duplicate(&self) -> Option<&str> {
        let mut keys: Vec<&str> = self.0.iter().map(|(key, _)| key.as_str()).collect();
        keys.sort_unstable();
        keys.windows(2)
            .find(|pair| pair[0] == pair[1])
            .map(|pair| pair[0])
    }
}

impl<'de> Deserialize<'de> for RawObject<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = RawObject<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(entry) = map.next_entry::<String, &'de RawValue>()? {
                    if members.len() == MAX_FIELDS {
                        return Err(A::Error::custom("too many fields"));
                    }
                    members.push(entry);
                }
                Ok(RawObject(members))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

/// More top-level fields than any chat request has.
const MAX_FIELDS: usize = 256;
