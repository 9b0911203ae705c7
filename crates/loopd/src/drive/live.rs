//! Conversations kept in memory between turns, so that a turn needs not read its whole transcript.
//!
//! A convenience only: what is not here is read from the store. Bounded in bytes; the least
//! recently used go first.

use crate::prompt::Conversation;
use bxcore::id::SessionId;
use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

/// How many bytes of conversations are kept, all together.
const MAX_LIVE_BYTES: usize = 32 * 1024 * 1024;

/// Conversations by session.
#[derive(Debug, Default)]
pub(super) struct LiveSessions {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    sessions: HashMap<SessionId, Live>,
    bytes: usize,
    uses: u64,
    draining: HashSet<SessionId>,
}

#[derive(Debug)]
struct Live {
    conversation: Conversation,
    used: u64,
}

impl LiveSessions {
    /// Takes a session's conversation out, if it is here.
    pub(super) fn take(&self, session: &SessionId) -> Option<Conversation> {
        self.with(|inner| inner.remove(session))
    }

    /// Keeps a conversation as the turn left it.
    pub(super) fn keep(&self, session: &SessionId, conversation: Conversation) {
        self.with(|inner| {
            inner.remove(session);
            inner.uses += 1;
            inner.bytes += conversation.held_bytes();
            let live = Live {
                conversation,
                used: inner.uses,
            };
            inner.sessions.insert(session.clone(), live);
            while inner.bytes > MAX_LIVE_BYTES {
                let oldest = inner.sessions.iter().min_by_key(|(_, live)| live.used);
                let Some(oldest) = oldest.map(|(id, _)| id.clone()) else {
                    break;
                };
                inner.remove(&oldest);
            }
        });
    }

    /// Drops whatever is known of a session.
    pub(super) fn forget(&self, session: &SessionId) {
        self.with(|inner| {
            inner.remove(session);
            inner.draining.remove(session);
        });
    }

    /// Notes whether the server had let go of the session's slot when its last turn was stopped.
    pub(super) fn set_draining(&self, session: &SessionId, draining: bool) {
        self.with(|inner| {
            if draining {
                inner.draining.insert(session.clone());
            } else {
                inner.draining.remove(session);
            }
        });
    }

    /// Whether the session's last stop left a slot draining.
    pub(super) fn draining(&self, session: &SessionId) -> bool {
        self.with(|inner| inner.draining.contains(session))
    }

    fn with<T>(&self, act: impl FnOnce(&mut Inner) -> T) -> T {
        act(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Inner {
    fn remove(&mut self, session: &SessionId) -> Option<Conversation> {
        let live = self.sessions.remove(session)?;
        self.bytes = self.bytes.saturating_sub(live.conversation.held_bytes());
        Some(live.conversation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bxcore::transcript::{Entry, User};
    use bxcore::{chat::RawMessage, id::TurnId, label::Label};

    #[test]
    fn memory_is_bounded_and_the_oldest_goes_first() {
        let live = LiveSessions::default();
        let mut big = Conversation::default();
        big.push(&Entry::User(User {
            turn: TurnId::FIRST,
            label: Label::OWNER,
            memory: None,
            message: RawMessage::user(&"x".repeat(MAX_LIVE_BYTES / 3)),
        }));
        let id = |n: usize| SessionId::new(format!("chat-{n}")).unwrap();
        for n in 0..4 {
            live.keep(&id(n), big.clone());
        }
        assert!(live.take(&id(0)).is_none());
        assert!(live.take(&id(3)).is_some());
        live.with(|inner| assert!(inner.bytes <= MAX_LIVE_BYTES));
    }
}
