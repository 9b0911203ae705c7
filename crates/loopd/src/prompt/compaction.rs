//! When a conversation is summed up, and which of its messages stay as they are. Pure.
//!
//! A tool call is never parted from its result, and the message that the turn under way began with
//! always stays.

use super::conversation::{Conversation, Kind};
use super::request::{BYTES_PER_TOKEN, as_u64};
use crate::config::Compact;

/// How much a summary must save to be made by itself, in percent of the context.
const GAIN_PERCENT: u64 = 10;
/// What a conversation whose model doesn't say how many tokens fit is taken to have.
const UNKNOWN_CONTEXT_TOKENS: u64 = 8_192;
/// The most of the context that a summary may take, in parts of it.
const SUMMARY_PART: u64 = 4;

/// Which messages a summary takes the place of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compaction {
    /// The first message that stays.
    pub(super) first_kept: usize,
    /// How many tokens fit.
    pub(super) context_tokens: u64,
    /// The most tokens of the summary.
    pub(super) max_tokens: u32,
}

impl Conversation {
    /// What to sum up before the next request, if it nearly fills the context and enough is saved.
    pub fn due_compaction(&self, rules: &Compact, answer_tokens: u32) -> Option<Compaction> {
        let context = self.epoch.as_ref()?.context_tokens?;
        let likely = self.likely_tokens();
        let is_due = likely.saturating_mul(100) >= context.saturating_mul(rules.at_percent.into());
        if !rules.automatic || !is_due {
            return None;
        }
        let compaction = self.keeping(rules, answer_tokens, u64::MAX)?;
        let saved = self.dropped_bytes(compaction.first_kept) / BYTES_PER_TOKEN;
        (saved.saturating_mul(100) >= context * GAIN_PERCENT).then_some(compaction)
    }

    /// Whether a turn has begun that has no end yet.
    pub fn is_in_turn(&self) -> bool {
        self.turn_at.is_some()
    }

    /// What can be summed up now, however much of the context it fills; none where nothing can.
    pub fn compaction(&self, rules: &Compact, answer_tokens: u32) -> Option<Compaction> {
        let bytes = as_u64(self.head.len() - self.system_end);
        let keep = bytes / 100 * u64::from(rules.keep_percent);
        self.keeping(rules, answer_tokens, keep)
    }

    fn keeping(&self, rules: &Compact, answer_tokens: u32, most_bytes: u64) -> Option<Compaction> {
        let context = self.epoch.as_ref()?.context_tokens;
        let context = context.unwrap_or(UNKNOWN_CONTEXT_TOKENS);
        let keep = context / 100 * u64::from(rules.keep_percent) * BYTES_PER_TOKEN;
        let first_kept = self.first_kept(keep.min(most_bytes))?;
        let most = u32::try_from(context / SUMMARY_PART).unwrap_or(u32::MAX);
        (self.dropped_bytes(first_kept) > 0).then_some(Compaction {
            first_kept,
            context_tokens: context,
            max_tokens: answer_tokens.min(most).max(1),
        })
    }

    /// The messages that a summary takes the place of.
    pub(super) fn dropped(&self, first_kept: usize) -> impl Iterator<Item = usize> {
        let turn_at = self.turn_at;
        (0..first_kept).filter(move |at| Some(*at) != turn_at)
    }

    /// How many bytes they have, without an earlier summary.
    pub(super) fn dropped_bytes(&self, first_kept: usize) -> u64 {
        let new = self.dropped(first_kept).filter(|at| *at >= self.summed);
        new.map(|at| self.message_bytes(at)).sum()
    }

    fn message_bytes(&self, at: usize) -> u64 {
        as_u64(self.marks[at].end - self.begins(at))
    }

    /// The first of the last messages that have room; where not even the fewest have, these stay.
    fn first_kept(&self, keep_bytes: u64) -> Option<usize> {
        let kept_bytes = |first: &usize| {
            let request = self.turn_at.filter(|at| at < first);
            let request = request.map_or(0, |at| self.message_bytes(at));
            as_u64(self.head.len() - self.begins(*first)) + request
        };
        let mut places = (self.summed..=self.marks.len()).filter(|at| self.may_begin(*at));
        let fits = places.find(|first| kept_bytes(first) <= keep_bytes);
        let mut places = (self.summed..=self.marks.len()).filter(|at| self.may_begin(*at));
        fits.or_else(|| places.next_back())
    }

    /// Whether the messages that stay may begin here. In the middle of a turn its own message
    /// stands before them.
    fn may_begin(&self, at: usize) -> bool {
        let kind = self.marks.get(at).map(|mark| mark.kind);
        match (self.turn_at, kind) {
            (None, None) => true,
            (None, Some(kind)) => kind == Kind::User,
            (Some(turn_at), Some(Kind::User)) => at <= turn_at,
            (Some(turn_at), Some(Kind::Assistant { .. })) => at > turn_at,
            (Some(_), Some(Kind::Tool { .. }) | None) => false,
        }
    }
}
