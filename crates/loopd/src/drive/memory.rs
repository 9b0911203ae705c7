//! Calls to memoryd: what a session begins with. What its tools do with memory is brokerd's to decide.

use super::engine::Engine;
use crate::prompt::{Conversation, remembering};
use bxcore::label::{Class, Label};
use bxcore::memory::MEMORY;
use bxcore::problem::Problem;
use bxcore::text::{cap, frame};
use bxcore::transcript::{Epoch, Remembered};
use bxcore::wire::inferproxy::BackendInfo;
use bxcore::wire::memoryd::{MemoryBaseline, MemoryNews, NewsRequest};
use bxkit::rpc::{CallError, Client};
use std::time::Duration;

/// How long memoryd may take.
const QUICK_TIMEOUT: Duration = Duration::from_secs(30);
/// The most that one message says of what has changed, in bytes.
const MAX_NEWS_BYTES: usize = 4 * 1024;
/// What stands over what is new.
const ADDED: &str = "Memory has changed. New in it:";
/// What stands over what is gone.
const REMOVED: &str = "Memory has changed. No longer in it:";
/// What stands behind a list that is not shown whole.
const CUT: &str = "\n[…] (recall finds the rest.)";
/// How the line ends that counts what found no room.
const COUNT_END: &str = " more notes: recall finds them.)";

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

    /// What has changed since a session of this class was told this of memory.
    pub async fn news(&self, class: Class, known: &str) -> Result<MemoryNews, CallError> {
        let known = known.to_owned();
        let path = format!("/v1/baseline/{class}/news");
        self.client.post(&path, &NewsRequest { known }).await
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

    /// What the next message must say of memory before the person's own words: what has changed
    /// since this conversation was last told. It goes into a message, so that the server's cache of
    /// all that stands before it stays.
    ///
    /// None of it is above the class, and all is trusted. A turn needs no memory, so that a memoryd
    /// that is away is no reason to refuse one: the next turn tells.
    pub(super) async fn news(
        &self,
        conversation: &Conversation,
        class: Class,
    ) -> Option<Remembered> {
        conversation.epoch()?;
        let known = conversation.known_memory();
        match self.memory.news(class, without_count(known)).await {
            Ok(news) => remembered(&news, class),
            Err(error) => {
                tracing::warn!(%error, "what has changed in memory can't be told now");
                None
            }
        }
    }
}

/// How the model is told; none where there is nothing to tell.
fn remembered(news: &MemoryNews, class: Class) -> Option<Remembered> {
    let mut told = String::new();
    for (head, lines) in [(ADDED, &news.added), (REMOVED, &news.removed)] {
        let lines = lines.trim_end();
        let shown = cap(lines, MAX_NEWS_BYTES / 2);
        if shown.is_empty() {
            continue;
        }
        let cut = if shown.len() < lines.len() { CUT } else { "" };
        told += &format!("{head}\n{shown}{cut}\n");
    }
    let label = Label::new(class, false);
    (!told.is_empty()).then(|| Remembered {
        now: shown(&news.now),
        notice: frame(MEMORY, label, told.trim_end()),
    })
}

/// A baseline without the line that counts what found no room in it.
fn without_count(memory: &str) -> &str {
    match memory.rsplit_once('\n') {
        Some((text, last)) if last.ends_with(COUNT_END) => text,
        _ => memory,
    }
}

fn shown(held: &MemoryBaseline) -> String {
    match (held.text.trim_end(), held.left_out) {
        ("", _) => String::new(),
        (text, 0) => text.to_owned(),
        (text, more) => format!("{text}\n({more}{COUNT_END}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_told_what_changed_and_nothing_else() {
        let news = |added: &str, removed: &str| MemoryNews {
            now: MemoryBaseline {
                text: "# notes.md\nb\n".to_owned(),
                left_out: 2,
            },
            added: added.to_owned(),
            removed: removed.to_owned(),
        };
        assert_eq!(remembered(&news("", ""), Class::Private), None);
        let told = remembered(&news("# notes.md\nb\n", "# notes.md\na\n"), Class::Private).unwrap();
        insta::assert_snapshot!(told.notice, @r#"
        <tool-result tool="memory" class="private" trust="trusted">
        Memory has changed. New in it:
        # notes.md
        b
        Memory has changed. No longer in it:
        # notes.md
        a
        </tool-result>
        "#);
        assert_eq!(without_count(&told.now), "# notes.md\nb");
        let long = "ü".repeat(MAX_NEWS_BYTES);
        let told = remembered(&news(&long, &long), Class::Secret).unwrap();
        assert!(told.notice.len() < MAX_NEWS_BYTES + 300);
        assert_eq!(told.notice.matches("recall finds the rest").count(), 2);
    }

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
