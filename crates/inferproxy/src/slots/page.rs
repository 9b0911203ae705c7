//! The answer of llama-server's `/slots`, read. Pure.

use serde::Deserialize;
use std::collections::BTreeMap;

/// What the server says of one slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotLook {
    /// Whether it is at work.
    pub is_processing: bool,
    /// The server's number for what it works on, or worked on last.
    pub task: Option<i64>,
    /// Tokens of the prompt read so far.
    pub prompt_tokens: u64,
    /// Tokens written so far.
    pub decoded_tokens: u64,
}

impl SlotLook {
    /// Whether the slot has moved on between two looks: another task, or more tokens.
    pub fn has_moved_since(&self, earlier: &Self) -> bool {
        self != earlier
    }
}

/// All slots by their number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotsPage(BTreeMap<u32, SlotLook>);

/// The answer is not a list of slots.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the answer of /slots can't be understood ({0})")]
pub struct PageError(String);

#[derive(Deserialize)]
struct WireSlot {
    id: u32,
    is_processing: bool,
    #[serde(default)]
    id_task: Option<i64>,
    #[serde(default)]
    n_prompt_tokens: Option<u64>,
    #[serde(default)]
    n_prompt_tokens_processed: Option<u64>,
    #[serde(default)]
    next_token: Option<NextToken>,
}

/// A list of one in newer servers, the object itself in older ones.
#[derive(Deserialize)]
#[serde(untagged)]
enum NextToken {
    List(Vec<Decoded>),
    One(Decoded),
}

#[derive(Deserialize)]
struct Decoded {
    #[serde(default)]
    n_decoded: Option<u64>,
}

impl SlotsPage {
    /// Reads the body of an answer.
    pub fn parse(body: &[u8]) -> Result<Self, PageError> {
        let slots: Vec<WireSlot> =
            serde_json::from_slice(body).map_err(|error| PageError(error.to_string()))?;
        Ok(Self(
            slots
                .into_iter()
                .map(|slot| (slot.id, look(&slot)))
                .collect(),
        ))
    }

    /// What it says of a slot; none if there is no such slot.
    pub fn slot(&self, slot: u32) -> Option<SlotLook> {
        self.0.get(&slot).copied()
    }
}

fn look(slot: &WireSlot) -> SlotLook {
    let decoded = match &slot.next_token {
        Some(NextToken::List(list)) => list.first(),
        Some(NextToken::One(one)) => Some(one),
        None => None,
    };
    let read = slot.n_prompt_tokens.unwrap_or(0);
    SlotLook {
        is_processing: slot.is_processing,
        task: slot.id_task,
        prompt_tokens: read.max(slot.n_prompt_tokens_processed.unwrap_or(0)),
        decoded_tokens: decoded.and_then(|decoded| decoded.n_decoded).unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unused_idle_and_working_slots_are_read() {
        let body = br#"[
            {"id":0,"n_ctx":8192,"speculative":false,"is_processing":false},
            {"id":1,"is_processing":false,"id_task":357,"n_prompt_tokens":46,"n_prompt_tokens_processed":0,
             "next_token":[{"has_next_token":true,"n_decoded":0}]},
            {"id":2,"is_processing":true,"id_task":358,"n_prompt_tokens":45,"n_prompt_tokens_processed":24,
             "next_token":[{"n_remain":1979,"n_decoded":21}]},
            {"id":3,"is_processing":true,"id_task":9,"next_token":{"n_decoded":2}}
        ]"#;
        let page = SlotsPage::parse(body).unwrap();
        let look = |is_processing, task, prompt_tokens, decoded_tokens| SlotLook {
            is_processing,
            task,
            prompt_tokens,
            decoded_tokens,
        };
        assert_eq!(page.slot(0), Some(look(false, None, 0, 0)));
        assert_eq!(page.slot(1), Some(look(false, Some(357), 46, 0)));
        assert_eq!(page.slot(2), Some(look(true, Some(358), 45, 21)));
        assert_eq!(page.slot(3), Some(look(true, Some(9), 0, 2)));
        assert_eq!(page.slot(4), None);
    }

    #[test]
    fn life_is_any_movement() {
        let look = |task, prompt_tokens, decoded_tokens| SlotLook {
            is_processing: true,
            task: Some(task),
            prompt_tokens,
            decoded_tokens,
        };
        assert!(!look(1, 64, 0).has_moved_since(&look(1, 64, 0)));
        assert!(look(1, 128, 0).has_moved_since(&look(1, 64, 0)));
        assert!(look(1, 64, 1).has_moved_since(&look(1, 64, 0)));
        assert!(look(2, 64, 0).has_moved_since(&look(1, 64, 0)));
    }

    #[test]
    fn anything_else_is_an_error() {
        for body in [
            &b"{}"[..],
            b"",
            b"[{}]",
            b"[{\"id\":-1,\"is_processing\":true}]",
            b"<html>",
        ] {
            assert!(SlotsPage::parse(body).is_err());
        }
    }
}
