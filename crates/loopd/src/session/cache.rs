//! What the prompt cache did for each model call of a session, and why it lost what it lost.
//!
//! Read from the transcript alone. The rule: a call's `cache_n` is at least the smaller of what the
//! call before left behind and its own prompt, less [`CACHE_SLACK_TOKENS`].

use bxcore::transcript::{Assistant, Entry, Line, ToolMode};
use bxcore::wire::loopd::{CacheLoss, CacheLossCause, CacheRow};

/// Tokens that may be read again without it counting as a loss: the end of a prompt is rendered
/// with a prefix for the next answer, and a server reads at least one token anew.
pub const CACHE_SLACK_TOKENS: u64 = 16;

/// One row for each model call, in order.
pub fn cache_rows(lines: &[Line]) -> Vec<CacheRow> {
    let mut table = Table {
        mode: ToolMode::Native,
        new_epoch: false,
        before: None,
        rows: Vec::new(),
    };
    for line in lines {
        match &line.entry {
            Entry::Epoch(epoch) => {
                table.mode = epoch.mode;
                table.new_epoch = table.before.is_some();
            }
            Entry::Assistant(answer) => table.add(answer),
            _ => {}
        }
    }
    table.rows
}

struct Table<'a> {
    mode: ToolMode,
    new_epoch: bool,
    before: Option<&'a Assistant>,
    rows: Vec<CacheRow>,
}

impl<'a> Table<'a> {
    fn add(&mut self, answer: &'a Assistant) {
        let receipt = &answer.receipt;
        let previous_total = self
            .before
            .map_or(0, |before| before.receipt.usage().tokens());
        self.rows.push(CacheRow {
            model_call: answer.model_call,
            turn: answer.turn,
            slot: receipt.slot,
            prompt_tokens: receipt.prompt_tokens,
            cache_n: receipt.cache_n,
            completion_tokens: receipt.completion_tokens,
            previous_total,
            lost: self.loss(answer, previous_total),
        });
        self.before = Some(answer);
        self.new_epoch = false;
    }

    fn loss(&self, answer: &Assistant, previous_total: u64) -> Option<CacheLoss> {
        let before = self.before?;
        let expected = previous_total.min(answer.receipt.prompt_tokens);
        let Some(cached) = answer.receipt.cache_n else {
            return Some(CacheLoss {
                tokens: expected,
                cause: CacheLossCause::NotReported,
            });
        };
        if cached + CACHE_SLACK_TOKENS >= expected {
            return None;
        }
        Some(CacheLoss {
            tokens: expected - cached,
            cause: self.cause(answer, before, cached),
        })
    }

    /// The likeliest cause, from what is certain to what is left.
    fn cause(&self, answer: &Assistant, before: &Assistant, cached: u64) -> CacheLossCause {
        let last_message_only = cached + CACHE_SLACK_TOKENS >= before.receipt.prompt_tokens;
        if self.new_epoch {
            CacheLossCause::NewEpoch
        } else if answer.receipt.taken_over || answer.receipt.slot != before.receipt.slot {
            CacheLossCause::SlotTaken
        } else if last_message_only && !before.reasoning.is_empty() {
            CacheLossCause::ReasoningDropped
        } else if last_message_only && self.mode == ToolMode::Native && !before.calls.is_empty() {
            CacheLossCause::ToolCallRewritten
        } else if last_message_only {
            CacheLossCause::AnswerRetokenised
        } else {
            CacheLossCause::ServerCleared
        }
    }
}
