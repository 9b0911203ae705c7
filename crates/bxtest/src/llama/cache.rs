//! The KV caches of the simulated slots: pure bookkeeping, no waiting.

use super::render::{TOKEN_BYTES, tokens};

/// What a slot's cache saves of a prompt, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reuse {
    pub(super) prompt_tokens: usize,
    pub(super) cache_n: usize,
}

/// One byte sequence a slot: its last prompt and what was generated after it.
#[derive(Debug)]
pub(super) struct Caches {
    sequences: Vec<Vec<u8>>,
    clears_idle: bool,
}

impl Caches {
    pub(super) fn new(slots: usize, clears_idle: bool) -> Self {
        Self {
            sequences: vec![Vec::new(); slots],
            clears_idle,
        }
    }

    /// What `slot` would reuse of `prompt`: the common prefix, but never the prompt's last token.
    pub(super) fn reuse(&self, slot: usize, prompt: &[u8]) -> Reuse {
        let cached = &self.sequences[slot];
        let common = cached
            .iter()
            .zip(prompt)
            .take_while(|(left, right)| left == right)
            .count();
        let prompt_tokens = tokens(prompt.len());
        let cache_n = (common / TOKEN_BYTES).min(prompt_tokens.saturating_sub(1));
        Reuse {
            prompt_tokens,
            cache_n,
        }
    }

    /// A request starts on `slot`. Where slots share one cache, that costs the idle ones theirs.
    pub(super) fn start(&mut self, slot: usize, idle: impl Fn(usize) -> bool) {
        if self.clears_idle {
            for (other, sequence) in self.sequences.iter_mut().enumerate() {
                if other != slot && idle(other) {
                    sequence.clear();
                }
            }
        }
    }

    /// The request on `slot` left this sequence behind.
    pub(super) fn store(&mut self, slot: usize, sequence: Vec<u8>) {
        self.sequences[slot] = sequence;
    }

    /// Forgets everything, as a server does that restarts.
    pub(super) fn clear(&mut self) {
        self.sequences.iter_mut().for_each(Vec::clear);
    }
}
