//! How a conversation goes on in a new epoch: with all of its messages, or with a summary and the
//! last of them.

use super::conversation::{ANSWER, Conversation, EpochFacts, Kind};
use super::convert;
use super::offer::Offer;
use super::request::{head, tail};
use bxcore::chat::RawMessage;
use bxcore::transcript::{Compacted, Epoch, EpochReason, ToolMode};
use std::sync::Arc;

impl Conversation {
    /// Begins an epoch: another baseline, and the messages as its model is sent them.
    pub(super) fn begin_epoch(&mut self, epoch: &Epoch) {
        let messages = match (epoch.reason, &epoch.compacted) {
            (EpochReason::Compacted, compacted) => self.shortened(compacted.as_ref()),
            _ => self.rewritten(self.mode(), epoch.mode),
        };
        let old = std::mem::take(&mut self.head);
        self.marks.clear();
        self.measured = None;
        self.head = head(&epoch.model);
        self.messages_at = self.head.len();
        self.tail = tail(epoch.tools.as_deref(), &epoch.fixed);
        self.tools.clone_from(&epoch.tools);
        self.fixed = Arc::clone(&epoch.fixed);
        self.head.extend_from_slice(epoch.system.json().as_bytes());
        self.system_end = self.head.len();
        self.known_memory = epoch.memory.as_str().into();
        self.epoch = Some(EpochFacts {
            id: epoch.epoch,
            backend: epoch.backend.clone(),
            fingerprint: epoch.fingerprint.clone(),
            model: epoch.model.clone(),
            mode: epoch.mode,
            context_tokens: epoch.context_tokens,
            memory: Arc::clone(&self.known_memory),
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

    /// The messages of the next epoch where a summary takes the place of those before it.
    fn shortened(&mut self, compacted: Option<&Compacted>) -> Vec<(RawOrSame, Kind)> {
        let said = compacted.map_or(&[][..], |compacted| &compacted.messages);
        let summary = said.iter().zip([Kind::User, ANSWER]);
        let mut messages: Vec<_> = summary
            .map(|(message, kind)| (RawOrSame::Raw(message.clone()), kind))
            .collect();
        self.summed = messages.len();
        let kept = compacted.map_or(0, |compacted| compacted.kept);
        let kept = usize::try_from(kept).unwrap_or(usize::MAX);
        let first = self.marks.len().saturating_sub(kept);
        let stays = |at: &usize| *at >= first || Some(*at) == self.turn_at;
        let mut turn_at = None;
        for at in (0..self.marks.len()).filter(stays) {
            if Some(at) == self.turn_at {
                turn_at = Some(messages.len());
            }
            // A comma stands before each message.
            let place = RawOrSame::Same(self.begins(at) + 1, self.marks[at].end);
            messages.push((place, self.marks[at].kind));
        }
        if self.turn_at.is_none() {
            // What tools were found is read in no message any more.
            self.offer = Offer::default();
        }
        self.turn_at = turn_at;
        messages
    }
}

/// A message of the last epoch in the next one: written anew, or the same bytes.
enum RawOrSame {
    Raw(RawMessage),
    Same(usize, usize),
}
