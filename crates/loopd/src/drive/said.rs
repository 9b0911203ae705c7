//! What a turn begins with: a person's words, and what must be said before them. Pure.

use super::opening::{Ground, Past};
use crate::turn::Opening;
use bxcore::chat::RawMessage;
use bxcore::id::SessionId;
use bxcore::label::Label;
use bxcore::transcript::{Open, Remembered, User};

/// What a person says, and its label.
pub(super) struct Said {
    label: Label,
    memory: Option<Remembered>,
    message: RawMessage,
}

/// A person's words, behind what there is to say of memory.
pub(super) fn said(text: &str, label: Label, memory: Option<Remembered>) -> Said {
    let message = match &memory {
        Some(memory) => RawMessage::user(&format!("{}\n\n{text}", memory.notice)),
        None => RawMessage::user(text),
    };
    Said {
        label,
        memory,
        message,
    }
}

/// The entries that a turn of a session begins with.
pub(super) fn opening(session: &SessionId, past: &Past, ground: &Ground, said: Said) -> Opening {
    let open = past.is_new.then(|| Open {
        session: session.clone(),
        parent: None,
        lineage: None,
        label: said.label,
    });
    // What is said of memory may be as high as the session is.
    let label = match &said.memory {
        Some(_) => said
            .label
            .join(Label::new(ground.authority.label.class, false)),
        None => said.label,
    };
    Opening {
        open,
        epoch: ground.epoch.clone(),
        user: User {
            turn: past.conversation.next_turn(),
            label,
            memory: said.memory,
            message: said.message,
        },
    }
}
