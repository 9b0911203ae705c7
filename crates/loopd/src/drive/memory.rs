//! Calls to memoryd: what a session begins with. What its tools do with memory is brokerd's to decide.

use super::engine::Engine;
use crate::prompt::{Conversation, remembering};
use bxcore::label::Class;
use bxcore::problem::Problem;
use bxcore::transcript::Epoch;
use bxcore::wire::inferproxy::BackendInfo;
use bxcore::wire::memoryd::MemoryBaseline;
use bxkit::rpc::{CallError, Client};
use std::time::Duration;

/// How long memoryd may take.
const QUICK_TIMEOUT: Duration = Duration::from_secs(30);

/// Calls memoryd. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Memory {
    client: Client,
}

impl Memory {
    /// Over this client of memoryd's socket.
    pub fn new(client: Client) -> Self {
        Self {
            client: client.timeout(QUICK_TIMEOUT),
        }
    }

    /// What an epoch of a session of this class begins with.
    pub async fn baseline(&self, class: Class) -> Result<MemoryBaseline, CallError> {
        self.client.get(&format!("/v1/baseline/{class}")).await
    }

    /// Waits until memoryd answers.
    pub async fn wait_ready(&self, within: Duration) -> Result<(), CallError> {
        self.client.wait_ready(within).await.map(drop)
    }
}

impl Engine {
    /// The epoch that must begin before the next request, if one is due, with what memory holds now
    /// for a session of this class.
    ///
    /// All of that is trusted and of a class up to the session's own, so that it raises no label.
    pub(super) async fn next_epoch(
        &self,
        conversation: &Conversation,
        backend: &BackendInfo,
        class: Class,
    ) -> Result<Option<Epoch>, Problem> {
        let Some(due) = conversation.next_epoch(backend, &self.config.sampling) else {
            return Ok(None);
        };
        let held = self.memory.baseline(class).await?;
        Ok(Some(remembering(due, &shown(&held))))
    }
}

fn shown(held: &MemoryBaseline) -> String {
    match (held.text.trim_end(), held.left_out) {
        ("", _) => String::new(),
        (text, 0) => text.to_owned(),
        (text, more) => format!("{text}\n({more} more notes: recall finds them.)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_without_room_are_counted() {
        let check = |text: &str, left_out, expect: &str| {
            let text = text.to_owned();
            assert_eq!(shown(&MemoryBaseline { text, left_out }), expect);
        };
        check("", 0, "");
        check("# notes.md\na\n", 0, "# notes.md\na");
        check(
            "# notes.md\na\n",
            2,
            "# notes.md\na\n(2 more notes: recall finds them.)",
        );
    }
}
