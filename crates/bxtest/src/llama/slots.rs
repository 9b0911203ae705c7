//! The simulated slots: who is at work on which, in which phase, and waiting for a busy one.

use serde_json::{Value, json};
use std::sync::Mutex;
use tokio::sync::Notify;

use super::cache::{Caches, Reuse};

/// What a busy slot is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Prefill,
    Generating,
}

#[derive(Debug, Clone)]
struct Work {
    seq: usize,
    phase: Phase,
    reuse: Reuse,
    processed: usize,
    decoded: usize,
}

#[derive(Debug, Default)]
struct Slot {
    work: Option<Work>,
    last: Option<Work>,
}

#[derive(Debug)]
struct State {
    slots: Vec<Slot>,
    caches: Caches,
}

/// The slot table of one server.
#[derive(Debug)]
pub(super) struct Slots {
    state: Mutex<State>,
    freed: Notify,
}

impl Slots {
    pub(super) fn new(count: usize, clears_idle: bool) -> Self {
        let slots = (0..count).map(|_| Slot::default()).collect();
        let state = State {
            slots,
            caches: Caches::new(count, clears_idle),
        };
        Self {
            state: Mutex::new(state),
            freed: Notify::new(),
        }
    }

    /// Which request is at work on `slot`.
    pub(super) fn holder(&self, slot: usize) -> Option<usize> {
        self.state.lock().unwrap().slots[slot]
            .work
            .as_ref()
            .map(|work| work.seq)
    }

    /// The slot that was used least recently, for a request that names none.
    pub(super) fn pick(&self) -> usize {
        let state = self.state.lock().unwrap();
        let used = |slot: &Slot| slot.last.as_ref().map(|work| work.seq);
        let free = |index: &usize| state.slots[*index].work.is_none();
        (0..state.slots.len())
            .filter(free)
            .min_by_key(|index| used(&state.slots[*index]))
            .unwrap_or(0)
    }

    /// Takes `slot` at once; `None` when it is at work.
    pub(super) fn take(&self, slot: usize, seq: usize, prompt: &[u8]) -> Option<Reuse> {
        let mut state = self.state.lock().unwrap();
        if state.slots[slot].work.is_some() {
            return None;
        }
        let reuse = state.caches.reuse(slot, prompt);
        let State { slots, caches } = &mut *state;
        caches.start(slot, |other| slots[other].work.is_none());
        let processed = 0;
        slots[slot].work = Some(Work {
            seq,
            phase: Phase::Prefill,
            reuse,
            processed,
            decoded: 0,
        });
        Some(reuse)
    }

    /// Waits for `slot`, as the real server defers a request for a busy one.
    pub(super) async fn wait(&self, slot: usize, seq: usize, prompt: &[u8]) -> Reuse {
        loop {
            let freed = self.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            if let Some(reuse) = self.take(slot, seq, prompt) {
                return reuse;
            }
            freed.await;
        }
    }

    /// Moves the work on `slot` on.
    pub(super) fn progress(&self, slot: usize, phase: Phase, processed: usize, decoded: usize) {
        if let Some(work) = &mut self.state.lock().unwrap().slots[slot].work {
            work.phase = phase;
            work.processed = processed;
            work.decoded = decoded;
        }
    }

    /// Ends the work on `slot`, which leaves `sequence` in its cache.
    pub(super) fn release(&self, slot: usize, sequence: Vec<u8>) {
        let mut state = self.state.lock().unwrap();
        state.slots[slot].last = state.slots[slot].work.take();
        state.caches.store(slot, sequence);
        drop(state);
        self.freed.notify_waiters();
    }

    /// Ends all work and forgets all caches, as a killed server does.
    pub(super) fn reset(&self) {
        let mut state = self.state.lock().unwrap();
        state
            .slots
            .iter_mut()
            .for_each(|slot| *slot = Slot::default());
        state.caches.clear();
    }

    /// How many slots are at work.
    pub(super) fn busy(&self) -> usize {
        self.state
            .lock()
            .unwrap()
            .slots
            .iter()
            .filter(|slot| slot.work.is_some())
            .count()
    }

    /// The body of `/slots`.
    pub(super) fn describe(&self, context_tokens: usize) -> Value {
        let state = self.state.lock().unwrap();
        let describe = |(id, slot): (usize, &Slot)| describe_slot(id, slot, context_tokens);
        state.slots.iter().enumerate().map(describe).collect()
    }
}

fn describe_slot(id: usize, slot: &Slot, context_tokens: usize) -> Value {
    let busy = slot.work.is_some();
    let mut body = json!({
        "id": id, "n_ctx": context_tokens, "speculative": false, "is_processing": busy,
    });
    let Some(work) = slot.work.as_ref().or(slot.last.as_ref()) else {
        return body;
    };
    let prompt = match (busy, work.phase) {
        (true, Phase::Prefill) => work.reuse.cache_n + work.processed,
        _ => work.reuse.prompt_tokens + work.decoded,
    };
    let more = json!({
        "id_task": work.seq,
        "n_prompt_tokens": prompt,
        "n_prompt_tokens_processed": if busy { work.processed } else { 0 },
        "n_prompt_tokens_cache": if busy { work.reuse.cache_n } else { 0 },
        "params": {"n_predict": -1, "temperature": 0.8, "stream": true},
        "next_token": [{
            "has_next_token": true, "has_new_line": false, "n_remain": -1,
            "n_decoded": if busy { work.decoded } else { 0 },
        }],
    });
    if let (Some(body), Value::Object(more)) = (body.as_object_mut(), more) {
        body.extend(more);
    }
    body
}
