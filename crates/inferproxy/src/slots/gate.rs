//! The slot table shared between calls: claims that end by themselves when dropped.

use super::table::{Claim, Holder, Refusal, Row, SlotTable, Ticket};
use bxcore::wire::inferproxy::{Lane, SlotLayout};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::sync::watch;

/// The slots of one backend. Clones are the same slots.
#[derive(Debug, Clone)]
pub struct SlotGate {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// None while the server has no slots, or none are known yet.
    table: Mutex<Option<SlotTable>>,
    /// Counts the changes, for those who wait for a slot to drain.
    changes: watch::Sender<u64>,
    started: Instant,
}

impl Default for SlotGate {
    fn default() -> Self {
        Self {
            shared: Arc::new(Shared {
                table: Mutex::new(None),
                changes: watch::Sender::new(0),
                started: Instant::now(),
            }),
        }
    }
}

impl SlotGate {
    /// Takes the layout that the server turned out to have.
    pub fn set_layout(&self, layout: Option<SlotLayout>) {
        let now_ms = self.shared.now_ms();
        let mut table = self.shared.table();
        match (layout, table.as_mut()) {
            (Some(layout), Some(table)) if *table.layout() == layout => {}
            (Some(layout), Some(table)) => table.relayout(layout, now_ms),
            (Some(layout), None) => *table = Some(SlotTable::new(layout, now_ms)),
            (None, _) => *table = None,
        }
    }

    /// Claims a slot for a call; the claim ends when the hold is dropped.
    pub fn claim(&self, lane: Lane, slot: u32, holder: Holder) -> Result<SlotHold, Refusal> {
        let now_ms = self.shared.now_ms();
        let claim = match self.shared.table().as_mut() {
            Some(table) => table.claim(lane, slot, holder, now_ms)?,
            None => return Err(Refusal::NotOwned { owned: Vec::new() }),
        };
        let (Claim::Now(ticket) | Claim::AfterDrain(ticket)) = claim;
        Ok(SlotHold {
            shared: Arc::clone(&self.shared),
            ticket,
        })
    }

    /// Every slot, in order; none on a server without slots.
    pub fn rows(&self) -> Vec<Row> {
        let now_ms = self.shared.now_ms();
        self.shared
            .table()
            .as_ref()
            .map_or_else(Vec::new, |table| table.rows(now_ms))
    }
}

impl Shared {
    fn table(&self) -> MutexGuard<'_, Option<SlotTable>> {
        // Each change of the table is complete in itself, so a panic elsewhere leaves it whole.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn change(&self, change: impl FnOnce(&mut SlotTable, u64)) {
        let now_ms = self.now_ms();
        if let Some(table) = self.table().as_mut() {
            change(table, now_ms);
        }
        self.changes
            .send_modify(|count| *count = count.wrapping_add(1));
    }
}

/// A slot that one call has. Dropping it releases the slot.
#[derive(Debug)]
pub struct SlotHold {
    shared: Arc<Shared>,
    ticket: Ticket,
}

impl SlotHold {
    /// The slot.
    pub fn slot(&self) -> u32 {
        self.ticket.slot()
    }

    /// Whether the call may start now.
    pub fn may_start(&self) -> bool {
        self.shared
            .table()
            .as_ref()
            .is_some_and(|table| table.may_start(self.ticket))
    }

    /// Waits until nothing drains on the slot any more.
    pub async fn started(&self) {
        let mut changes = self.shared.changes.subscribe();
        while !self.may_start() {
            // The sender lives in `shared`, which this hold keeps alive.
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// Gives the slot up while the server may still be at work on it: it drains from now on.
    ///
    /// None if there is nothing to drain.
    pub fn drain(self) -> Option<SlotDrain> {
        let mut drains = false;
        self.shared
            .change(|table, now_ms| drains = table.drain(self.ticket, now_ms));
        drains.then(|| SlotDrain {
            shared: Arc::clone(&self.shared),
            ticket: self.ticket,
        })
    }
}

impl Drop for SlotHold {
    fn drop(&mut self) {
        // After `drain` the ticket no longer holds the slot, and this does nothing.
        self.shared
            .change(|table, now_ms| table.release(self.ticket, now_ms));
    }
}

/// A slot that nobody gets until the server has let go of it. Dropping it says that it has.
#[derive(Debug)]
pub struct SlotDrain {
    shared: Arc<Shared>,
    ticket: Ticket,
}

impl SlotDrain {
    /// The slot.
    pub fn slot(&self) -> u32 {
        self.ticket.slot()
    }
}

impl Drop for SlotDrain {
    fn drop(&mut self) {
        self.shared
            .change(|table, now_ms| table.drained(self.ticket, now_ms));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bxcore::id::{ModelCallId, SessionId};

    fn holder(call: u64) -> Holder {
        Holder {
            session: SessionId::new("a").unwrap(),
            call: ModelCallId(call),
        }
    }

    fn gate() -> SlotGate {
        let gate = SlotGate::default();
        gate.set_layout(Some(SlotLayout {
            main: vec![0],
            background: 1,
            seats: vec![],
        }));
        gate
    }

    #[test]
    fn a_dropped_hold_frees_its_slot() {
        let gate = gate();
        let hold = gate.claim(Lane::Main, 0, holder(1)).unwrap();
        assert_eq!(
            gate.claim(Lane::Main, 0, holder(2)).unwrap_err(),
            Refusal::Busy(holder(1))
        );
        drop(hold);
        assert!(gate.claim(Lane::Main, 0, holder(2)).unwrap().may_start());
    }

    #[test]
    fn without_slots_nothing_can_be_claimed() {
        let refused = SlotGate::default()
            .claim(Lane::Main, 0, holder(1))
            .unwrap_err();
        assert_eq!(refused, Refusal::NotOwned { owned: vec![] });
    }

    #[tokio::test]
    async fn who_waits_starts_when_the_slot_has_drained() {
        let gate = gate();
        let drain = gate
            .claim(Lane::Main, 0, holder(1))
            .unwrap()
            .drain()
            .unwrap();
        let next = gate.claim(Lane::Main, 0, holder(2)).unwrap();
        assert!(!next.may_start());
        let started = tokio::spawn(async move {
            next.started().await;
            next
        });
        tokio::task::yield_now().await;
        assert!(!started.is_finished());
        drop(drain);
        assert!(started.await.unwrap().may_start());
    }

    #[test]
    fn a_call_that_never_started_leaves_nothing_to_drain() {
        let gate = gate();
        let _drain = gate
            .claim(Lane::Main, 0, holder(1))
            .unwrap()
            .drain()
            .unwrap();
        assert!(
            gate.claim(Lane::Main, 0, holder(2))
                .unwrap()
                .drain()
                .is_none()
        );
        assert!(gate.claim(Lane::Main, 0, holder(3)).is_ok());
    }
}
