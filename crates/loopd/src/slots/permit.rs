//! The gate for asynchronous callers: waits to be served, and gives the slot back when dropped.

use super::gate::{Ask, Gate, GateError, Served, Ticket};
use super::layout::Layout;
use bxcore::id::BackendName;
use bxcore::wire::loopd::GateRow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio::sync::oneshot;

/// A shared slot gate. Cheap to clone.
#[derive(Debug, Clone)]
pub struct SlotGate {
    inner: Arc<Mutex<Inner>>,
    epoch: Instant,
}

#[derive(Debug, Default)]
struct Inner {
    gate: Gate,
    waiting: HashMap<Ticket, oneshot::Sender<Served>>,
}

impl Default for SlotGate {
    fn default() -> Self {
        Self {
            inner: Arc::default(),
            epoch: Instant::now(),
        }
    }
}

impl SlotGate {
    /// Declares what a backend has, or that it changed.
    pub fn declare(&self, name: &BackendName, layout: &Layout) {
        self.with(|inner| {
            let served = inner.gate.declare(name, layout);
            inner.deliver(served);
        });
    }

    /// Waits for a slot. `on_wait` is told once, before the wait, how many are ahead.
    ///
    /// Dropping the future leaves the queue.
    pub async fn acquire(
        &self,
        ask: Ask,
        on_wait: impl FnOnce(usize),
    ) -> Result<Permit, GateError> {
        let now = self.now_ms();
        let backend = ask.backend.clone();
        let (sender, receiver) = oneshot::channel();
        let (ticket, ahead) = self.with(|inner| {
            let (ticket, served) = inner.gate.ask(ask, now)?;
            inner.waiting.insert(ticket, sender);
            inner.deliver(served);
            Ok((ticket, inner.gate.ahead(&backend, ticket)))
        })?;
        let mut permit = Permit {
            gate: self.clone(),
            backend,
            ticket,
            served: None,
        };
        if let Some(ahead) = ahead {
            on_wait(ahead);
        }
        // The sender lives in the gate until the ask is served, so the channel can't close before.
        permit.served = receiver.await.ok();
        Ok(permit)
    }

    /// Everyone who holds or waits.
    pub fn rows(&self) -> Vec<GateRow> {
        let now = self.now_ms();
        self.with(|inner| inner.gate.rows(now))
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn with<T>(&self, act: impl FnOnce(&mut Inner) -> T) -> T {
        // The gate is consistent between any two calls, so a panic elsewhere doesn't spoil it.
        act(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Inner {
    fn deliver(&mut self, all: Vec<Served>) {
        for served in all {
            if let Some(sender) = self.waiting.remove(&served.ticket) {
                // A caller that went away releases through its permit's drop.
                let _ = sender.send(served);
            }
        }
    }
}

/// The right to use one slot for one request. Gives it back when dropped.
#[derive(Debug)]
pub struct Permit {
    gate: SlotGate,
    backend: BackendName,
    ticket: Ticket,
    served: Option<Served>,
}

impl Permit {
    /// The slot; none on a backend without slots.
    pub fn slot(&self) -> Option<u32> {
        self.served.and_then(|served| served.slot)
    }

    /// Whether another session used the slot since this one last did.
    pub fn taken_over(&self) -> bool {
        self.served.is_some_and(|served| served.taken_over)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.gate.with(|inner| {
            inner.waiting.remove(&self.ticket);
            let served = inner.gate.release(&self.backend, self.ticket);
            inner.deliver(served);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bxcore::id::SessionId;
    use bxcore::wire::inferproxy::{Lane, SlotLayout};
    use bxcore::wire::loopd::Priority;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn ask(session: &str) -> Ask {
        Ask {
            backend: BackendName::new("b").unwrap(),
            lane: Lane::Main,
            priority: Priority::Live,
            session: SessionId::new(session).unwrap(),
            preferred: None,
        }
    }

    #[tokio::test]
    async fn whoever_goes_away_while_waiting_blocks_nobody() {
        let gate = SlotGate::default();
        let layout = SlotLayout {
            main: vec![0],
            background: 1,
            seats: vec![],
        };
        gate.declare(&ask("a").backend, &Layout::Slots(layout));
        let held = gate.acquire(ask("a"), |_| {}).await.unwrap();
        {
            let mut gone = pin!(gate.acquire(ask("b"), |ahead| assert_eq!(ahead, 0)));
            let poll = gone.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(matches!(poll, Poll::Pending));
            assert_eq!(gate.rows().len(), 2);
        }
        assert_eq!(gate.rows().len(), 1);
        drop(held);
        assert_eq!(
            gate.acquire(ask("c"), |_| {}).await.unwrap().slot(),
            Some(0)
        );
    }
}
