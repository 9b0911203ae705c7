//! The request for a summary, and what becomes of its answer. Pure.
//!
//! What was said is data to the model that sums it up, and the summary is data to the one that goes
//! on: both stand in a frame that no text can close.

use super::compaction::Compaction;
use super::conversation::{Conversation, Kind};
use super::message::answer_text;
use super::reply::Reply;
use super::request::{BYTES_PER_TOKEN, as_u64};
use super::system::system_text;
use crate::config::Compact;
use bxcore::chat::{ModelAnswer, RawMessage};
use bxcore::code::Code;
use bxcore::id::ModelCallId;
use bxcore::label::Label;
use bxcore::money::MicroUsd;
use bxcore::problem::Problem;
use bxcore::text::{cap, frame, neutralise};
use bxcore::transcript::{Compacted, Epoch, EpochReason, ToolMode};
use bxcore::usage::Receipt;
use bytes::Bytes;
use serde_json::Value;
use std::sync::Arc;

/// The most of one message that is summed up, in bytes.
const MAX_SHOWN_BYTES: usize = 8 * 1024;
/// What stands in place of what is left out.
const LEFT_OUT: &str = "[…]";
/// The names of the frames.
const CONVERSATION: &str = "conversation";
const SUMMARY: &str = "summary";
/// What stands before a summary in the conversation that goes on.
const HEAD: &str = "This conversation is longer than what follows. This sums up what came before:";
/// By what the model has taken it in, so that user and assistant take turns.
const TAKEN_IN: &str = "I have read the summary and go on from there.";

/// A summary as it was written, and what it took.
#[derive(Debug, Clone)]
pub struct Summary {
    /// The text, from [`summary_text`].
    pub text: String,
    /// The session's label.
    pub label: Label,
    /// The session's number for the model call.
    pub model_call: ModelCallId,
    /// What the proxy measured.
    pub receipt: Receipt,
    /// What it cost.
    pub cost: MicroUsd,
}

impl Compaction {
    /// The most tokens of the summary.
    pub fn max_tokens(&self) -> u32 {
        self.max_tokens
    }
}

impl Conversation {
    /// The body of the request for a summary, on this slot.
    pub fn summary_body(
        &self,
        compaction: &Compaction,
        rules: &Compact,
        max_tokens: u32,
        slot: Option<u32>,
    ) -> Bytes {
        let text = self.material(compaction, rules);
        let asked = format!(
            "{}\n\nSum up this conversation in at most {} characters.",
            frame(CONVERSATION, self.label(), &text),
            rules.summary_chars
        );
        self.aside(&rules.prompt, &asked, max_tokens, slot)
    }

    /// The most tokens that the prompt for a summary can have.
    pub fn summary_bound(&self, compaction: &Compaction, rules: &Compact) -> u64 {
        let body = self.summary_body(compaction, rules, compaction.max_tokens, None);
        as_u64(body.len()).min(compaction.context_tokens)
    }

    /// The epoch that begins with a summary, and with this of memory.
    pub fn compacted(
        &self,
        compaction: &Compaction,
        summary: Summary,
        memory: &str,
    ) -> Option<Epoch> {
        let now = self.epoch.as_ref()?;
        let memory = memory.to_owned();
        let framed = frame(SUMMARY, summary.label, &summary.text);
        let kept = self.marks.len() - compaction.first_kept;
        Some(Epoch {
            epoch: now.id.next(),
            reason: EpochReason::Compacted,
            backend: now.backend.clone(),
            fingerprint: now.fingerprint.clone(),
            model: now.model.clone(),
            mode: now.mode,
            system: RawMessage::system(&system_text(now.mode, &memory)),
            memory,
            tools: self.tools.clone(),
            fixed: Arc::clone(&self.fixed),
            context_tokens: now.context_tokens,
            compacted: Some(Compacted {
                model_call: summary.model_call,
                messages: vec![
                    RawMessage::user(&format!("{HEAD}\n{framed}")),
                    answer_text(now.mode, TAKEN_IN),
                ],
                kept: u32::try_from(kept).unwrap_or(u32::MAX),
                label: summary.label,
                receipt: summary.receipt,
                cost: summary.cost,
            }),
        })
    }

    /// What is summed up, as one text that fits. Where it is too long, the beginning (an earlier
    /// summary, or what the person wanted first) and the end of it stay.
    fn material(&self, compaction: &Compaction, rules: &Compact) -> String {
        const OVERHEAD_TOKENS: u64 = 512;
        let tokens = compaction
            .context_tokens
            .saturating_sub(u64::from(compaction.max_tokens) + OVERHEAD_TOKENS);
        let room = usize::try_from(tokens * BYTES_PER_TOKEN).unwrap_or(usize::MAX);
        let mut room = room.saturating_sub(rules.prompt.len());
        let taken_in = |at: &usize| *at == 0 || *at >= self.summed;
        let dropped = self.dropped(compaction.first_kept).filter(taken_in);
        let mut told = dropped.map(|at| self.told(at));
        let mut first = told.next().unwrap_or_default();
        first.truncate(first.floor_char_boundary(room));
        room -= first.len();
        let rest: Vec<String> = told.collect();
        let mut from = rest.len();
        while from > 0 && rest[from - 1].len() <= room {
            from -= 1;
            room -= rest[from].len();
        }
        if from > 0 {
            first.push_str(LEFT_OUT);
            first.push_str("\n\n");
        }
        first.extend(rest.into_iter().skip(from));
        first.trim_end().to_owned()
    }

    /// A message as it is told to whoever sums it up.
    fn told(&self, at: usize) -> String {
        let mark = self.marks[at];
        let bytes = self.head.get(self.begins(at) + 1..mark.end);
        let message: Value = serde_json::from_slice(bytes.unwrap_or_default()).unwrap_or_default();
        let content = message["content"].as_str().unwrap_or_default();
        let (who, said) = match (mark.kind, self.mode()) {
            (Kind::User, _) if at < self.summed => ("Before", content.to_owned()),
            (Kind::User, _) => ("Person", content.to_owned()),
            (Kind::Tool { .. }, _) => ("Result", content.to_owned()),
            (
                Kind::Assistant {
                    first_call: None, ..
                },
                ToolMode::Schema,
            ) => ("Assistant", Reply::from_text(content).answer),
            (Kind::Assistant { .. }, _) => {
                let calls = &message["tool_calls"];
                let calls = calls.as_array().into_iter().flatten();
                let mut said = content.to_owned();
                for call in calls {
                    let function = &call["function"];
                    let word = |key: &str| function[key].as_str().unwrap_or_default().to_owned();
                    said += &format!("\ncalls {} {}", word("name"), word("arguments"));
                }
                ("Assistant", said)
            }
        };
        let shown = cap(said.trim(), MAX_SHOWN_BYTES);
        let cut = if shown.len() < said.trim().len() {
            LEFT_OUT
        } else {
            ""
        };
        format!("{who}: {}{cut}\n\n", neutralise(shown))
    }
}

/// The text of a summary out of the answer to the request for it, cut to its bound.
///
/// # Errors
/// There is none in it, or it saves nothing: then the conversation is better as it is.
pub fn summary_text(
    answer: &ModelAnswer,
    conversation: &Conversation,
    compaction: &Compaction,
    rules: &Compact,
) -> Result<String, Problem> {
    let unusable = |detail: String| {
        Problem::new(Code::SummaryUnusable, "The model's summary can't be used").detail(detail)
    };
    let said = answer.content.trim();
    if !said.chars().any(char::is_alphanumeric) {
        let spent = if answer.reasoning.is_empty() {
            "it is empty"
        } else {
            "it is empty: all tokens went into its reasoning"
        };
        return Err(unusable(spent.to_owned()));
    }
    let most = usize::try_from(rules.summary_chars).unwrap_or(usize::MAX);
    let end = said.char_indices().nth(most).map(|(at, _)| at);
    let kept = said.get(..end.unwrap_or(said.len())).unwrap_or(said);
    let mut text = neutralise(kept).into_owned();
    if end.is_some() {
        text.push_str(LEFT_OUT);
    }
    let instead_of = conversation.dropped_bytes(compaction.first_kept);
    if as_u64(text.len()) >= instead_of {
        return Err(unusable(format!(
            "it has {} bytes, and what it sums up {instead_of}",
            text.len()
        )));
    }
    Ok(text)
}
