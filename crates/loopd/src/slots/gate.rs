//! The gate as a pure state machine: asks and releases in, who is served out. No clock, no waiting.
//!
//! The most urgent is served first, and of equals the one that came first. A request that is served
//! is never pre-empted. A session on the main lane gets the slot it had before where that is free;
//! else a slot that nobody had; else the least recently used one, whose session yields it.

use super::layout::Layout;
use bxcore::id::{BackendName, SessionId};
use bxcore::wire::inferproxy::Lane;
use bxcore::wire::loopd::{GateRow, Priority};
use std::collections::BTreeMap;

/// How many requests may wait at one backend.
pub const MAX_WAITERS: usize = 4_096;

/// Names one ask from its beginning to its release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// A request for a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// The backend.
    pub backend: BackendName,
    /// Which of its slots would do.
    pub lane: Lane,
    /// How urgent it is.
    pub priority: Priority,
    /// The session that it is for.
    pub session: SessionId,
    /// The slot that the session's last request was served on, if that is known.
    pub preferred: Option<u32>,
}

/// An ask that is served: the slot that it is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Served {
    /// To whom.
    pub ticket: Ticket,
    /// Which slot; none on a backend without slots.
    pub slot: Option<u32>,
    /// Whether another session used the slot since this one last did.
    pub taken_over: bool,
}

/// Why an ask is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// No capacity of this backend has been declared.
    #[error("the gate knows no backend `{0}`")]
    UnknownBackend(BackendName),
    /// The backend has no slots for this lane.
    #[error("the backend `{backend}` has no slots for the {} lane", lane.name())]
    NoSuchLane {
        /// The backend.
        backend: BackendName,
        /// The lane.
        lane: Lane,
    },
    /// [`MAX_WAITERS`] wait already.
    #[error("{MAX_WAITERS} requests wait at the backend `{0}` already")]
    Full(BackendName),
}

#[derive(Debug)]
struct Entry {
    ticket: Ticket,
    ask: Ask,
    slot: Option<u32>,
    since_ms: u64,
}

#[derive(Debug, Default)]
struct Owner {
    session: Option<SessionId>,
    last_used: u64,
}

#[derive(Debug)]
struct Backend {
    layout: Layout,
    owners: BTreeMap<u32, Owner>,
    holders: Vec<Entry>,
    waiters: Vec<Entry>,
}

/// All backends' slots, who holds them and who waits.
#[derive(Debug, Default)]
pub struct Gate {
    backends: BTreeMap<BackendName, Backend>,
    next_ticket: u64,
    uses: u64,
}

impl Gate {
    /// Declares what a backend has, or that it changed. Holders keep what they have.
    pub fn declare(&mut self, name: &BackendName, layout: &Layout) -> Vec<Served> {
        match self.backends.get_mut(name) {
            Some(backend) if backend.layout == *layout => return Vec::new(),
            Some(backend) => backend.layout = layout.clone(),
            None => {
                let backend = Backend {
                    layout: layout.clone(),
                    owners: BTreeMap::new(),
                    holders: Vec::new(),
                    waiters: Vec::new(),
                };
                self.backends.insert(name.clone(), backend);
            }
        }
        self.serve(name)
    }

    /// Asks for a slot. It is among those served at once, or among those of a later release.
    pub fn ask(&mut self, ask: Ask, now_ms: u64) -> Result<(Ticket, Vec<Served>), GateError> {
        let name = ask.backend.clone();
        let backend = self
            .backends
            .get_mut(&name)
            .ok_or_else(|| GateError::UnknownBackend(name.clone()))?;
        if let Layout::Slots(_) = backend.layout
            && backend.lane_slots(ask.lane).is_empty()
        {
            return Err(GateError::NoSuchLane {
                backend: name,
                lane: ask.lane,
            });
        }
        if backend.waiters.len() >= MAX_WAITERS {
            return Err(GateError::Full(name));
        }
        self.next_ticket += 1;
        let ticket = Ticket(self.next_ticket);
        let entry = Entry {
            ticket,
            ask,
            slot: None,
            since_ms: now_ms,
        };
        let behind = |waiter: &Entry| waiter.ask.priority <= entry.ask.priority;
        let at = backend.waiters.partition_point(behind);
        backend.waiters.insert(at, entry);
        Ok((ticket, self.serve(&name)))
    }

    /// Gives a slot back, or leaves the queue.
    pub fn release(&mut self, name: &BackendName, ticket: Ticket) -> Vec<Served> {
        let Some(backend) = self.backends.get_mut(name) else {
            return Vec::new();
        };
        backend.holders.retain(|entry| entry.ticket != ticket);
        backend.waiters.retain(|entry| entry.ticket != ticket);
        self.serve(name)
    }

    /// How many are served before this ticket; none once it is served itself.
    pub fn ahead(&self, name: &BackendName, ticket: Ticket) -> Option<usize> {
        let backend = self.backends.get(name)?;
        backend
            .waiters
            .iter()
            .position(|entry| entry.ticket == ticket)
    }

    /// Everyone who holds or waits, for a person to see.
    pub fn rows(&self, now_ms: u64) -> Vec<GateRow> {
        let row = |entry: &Entry, holds: bool| GateRow {
            backend: entry.ask.backend.clone(),
            slot: entry.slot,
            lane: entry.ask.lane,
            session: entry.ask.session.clone(),
            priority: entry.ask.priority,
            holds,
            since_ms: now_ms.saturating_sub(entry.since_ms),
        };
        let of = |backend: &Backend| {
            let holders = backend.holders.iter().map(|entry| row(entry, true));
            let waiters = backend.waiters.iter().map(|entry| row(entry, false));
            holders.chain(waiters).collect::<Vec<_>>()
        };
        self.backends.values().flat_map(of).collect()
    }

    fn serve(&mut self, name: &BackendName) -> Vec<Served> {
        let mut served = Vec::new();
        let Some(backend) = self.backends.get_mut(name) else {
            return served;
        };
        let mut at = 0;
        while at < backend.waiters.len() {
            let Some(slot) = backend.place(&backend.waiters[at].ask) else {
                at += 1;
                continue;
            };
            self.uses += 1;
            let mut entry = backend.waiters.remove(at);
            entry.slot = slot;
            let taken_over = backend.take(slot, &entry.ask.session, self.uses);
            served.push(Served {
                ticket: entry.ticket,
                slot,
                taken_over,
            });
            backend.holders.push(entry);
        }
        served
    }
}

impl Backend {
    fn lane_slots(&self, lane: Lane) -> &[u32] {
        let Layout::Slots(slots) = &self.layout else {
            return &[];
        };
        match lane {
            Lane::Main => &slots.main,
            Lane::Background => std::slice::from_ref(&slots.background),
            Lane::Seat => &slots.seats,
        }
    }

    /// The slot that an ask would get now: none if it has to wait.
    #[expect(
        clippy::option_option,
        reason = "outer: whether there is room; inner: slot number"
    )]
    fn place(&self, ask: &Ask) -> Option<Option<u32>> {
        if let Layout::Concurrency(most) = self.layout {
            let held = u32::try_from(self.holders.len()).unwrap_or(u32::MAX);
            return (held < most).then_some(None);
        }
        let held = |slot: u32| self.holders.iter().any(|entry| entry.slot == Some(slot));
        let free = || {
            self.lane_slots(ask.lane)
                .iter()
                .copied()
                .filter(|slot| !held(*slot))
        };
        let own = free().find(|slot| self.owner(*slot) == Some(&ask.session));
        // After a restart nobody owns anything yet, but the transcript says where the cache is.
        let remembered =
            || free().find(|slot| Some(*slot) == ask.preferred && self.owner(*slot).is_none());
        let least_recent =
            || free().min_by_key(|slot| self.owners.get(slot).map_or(0, |owner| owner.last_used));
        own.or_else(remembered).or_else(least_recent).map(Some)
    }

    fn owner(&self, slot: u32) -> Option<&SessionId> {
        self.owners.get(&slot)?.session.as_ref()
    }

    /// Notes that a session uses a slot now; true if another one had it in between.
    fn take(&mut self, slot: Option<u32>, session: &SessionId, use_count: u64) -> bool {
        let Some(slot) = slot else {
            return false;
        };
        let owner = self.owners.entry(slot).or_default();
        let taken_over = owner
            .session
            .as_ref()
            .is_some_and(|before| before != session);
        *owner = Owner {
            session: Some(session.clone()),
            last_used: use_count,
        };
        taken_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bxcore::wire::inferproxy::SlotLayout;
    use proptest::prelude::*;

    fn name() -> BackendName {
        BackendName::new("local").unwrap()
    }

    fn slots(main: &[u32], background: u32) -> Layout {
        Layout::Slots(SlotLayout {
            main: main.to_vec(),
            background,
            seats: Vec::new(),
        })
    }

    fn ask(session: &str, lane: Lane, priority: Priority) -> Ask {
        let session = SessionId::new(session).unwrap();
        Ask {
            backend: name(),
            lane,
            priority,
            session,
            preferred: None,
        }
    }

    fn live(session: &str) -> Ask {
        ask(session, Lane::Main, Priority::Live)
    }

    #[test]
    fn background_is_served_by_priority_then_by_arrival() {
        let mut gate = Gate::default();
        gate.declare(&name(), &slots(&[0], 2));
        let (first, served) = gate
            .ask(ask("a", Lane::Background, Priority::ToolSummary), 0)
            .unwrap();
        assert_eq!(served[0].slot, Some(2));
        let order = [
            Priority::ToolSummary,
            Priority::Heartbeat,
            Priority::Job,
            Priority::Live,
            Priority::Compaction,
            Priority::Live,
        ];
        let tickets: Vec<_> = order
            .iter()
            .map(|priority| {
                gate.ask(ask("b", Lane::Background, *priority), 0)
                    .unwrap()
                    .0
            })
            .collect();
        assert_eq!(gate.ahead(&name(), tickets[0]), Some(5));
        let mut held = first;
        let mut served = Vec::new();
        for _ in order {
            held = gate.release(&name(), held)[0].ticket;
            served.push(tickets.iter().position(|ticket| *ticket == held).unwrap());
        }
        assert_eq!(served, [4, 3, 5, 2, 1, 0]);
    }

    #[test]
    fn a_session_keeps_its_slot_and_the_least_recent_yields() {
        let mut gate = Gate::default();
        gate.declare(&name(), &slots(&[0, 1], 2));
        let mut turn = |session: &str| {
            let (ticket, served) = gate.ask(live(session), 0).unwrap();
            gate.release(&name(), ticket);
            (served[0].slot, served[0].taken_over)
        };
        assert_eq!(turn("a"), (Some(0), false));
        assert_eq!(turn("b"), (Some(1), false));
        assert_eq!(turn("a"), (Some(0), false));
        assert_eq!(turn("c"), (Some(1), true), "b's was used longest ago");
        assert_eq!(turn("a"), (Some(0), false));
        assert_eq!(turn("b"), (Some(1), true));
    }

    #[test]
    fn after_a_restart_the_remembered_slot_is_taken() {
        let mut gate = Gate::default();
        gate.declare(&name(), &slots(&[0, 1], 2));
        let (_, served) = gate
            .ask(
                Ask {
                    preferred: Some(1),
                    ..live("a")
                },
                0,
            )
            .unwrap();
        assert_eq!(served[0].slot, Some(1));
    }

    #[test]
    fn a_waiter_for_another_lane_is_not_held_up() {
        let mut gate = Gate::default();
        gate.declare(&name(), &slots(&[0], 2));
        gate.ask(live("a"), 0).unwrap();
        let (_, served) = gate.ask(live("b"), 0).unwrap();
        assert!(served.is_empty());
        let (_, served) = gate
            .ask(ask("c", Lane::Background, Priority::Heartbeat), 0)
            .unwrap();
        assert_eq!(served[0].slot, Some(2));
    }

    #[test]
    fn a_single_slot_serves_both_lanes_one_at_a_time() {
        let mut gate = Gate::default();
        gate.declare(&name(), &slots(&[0], 0));
        let (parent, _) = gate.ask(live("a"), 0).unwrap();
        let (_, served) = gate
            .ask(ask("b", Lane::Background, Priority::Live), 0)
            .unwrap();
        assert!(served.is_empty());
        assert_eq!(gate.release(&name(), parent).len(), 1);
    }

    #[test]
    fn what_is_not_there_is_refused() {
        let mut gate = Gate::default();
        assert!(matches!(
            gate.ask(live("a"), 0),
            Err(GateError::UnknownBackend(_))
        ));
        gate.declare(&name(), &slots(&[0], 2));
        let seat = ask("seat-a", Lane::Seat, Priority::Live);
        assert!(matches!(
            gate.ask(seat, 0),
            Err(GateError::NoSuchLane { .. })
        ));
    }

    proptest! {
        #[test]
        fn no_slot_is_held_twice_and_nobody_starves(
            steps in prop::collection::vec((0u8..3, 0usize..6, 0u8..5), 1..200),
            concurrency in prop::option::of(1u32..4),
        ) {
            let layout = concurrency.map_or_else(|| slots(&[0, 1], 2), Layout::Concurrency);
            let mut gate = Gate::default();
            gate.declare(&name(), &layout);
            let mut open: Vec<Ticket> = Vec::new();
            for (kind, who, priority) in steps {
                if kind == 0 && !open.is_empty() {
                    gate.release(&name(), open.remove(who % open.len()));
                } else {
                    let lane = if kind == 1 { Lane::Main } else { Lane::Background };
                    let priority = [Priority::Compaction, Priority::Live, Priority::Job, Priority::Heartbeat, Priority::ToolSummary][priority as usize];
                    open.push(gate.ask(ask(&format!("s{who}"), lane, priority), 0).unwrap().0);
                }
                let rows = gate.rows(0);
                let mut held: Vec<_> = rows.iter().filter(|row| row.holds).map(|row| row.slot).collect();
                let count = held.len();
                if let Some(most) = concurrency {
                    prop_assert!(count <= most as usize);
                } else {
                    held.sort_unstable();
                    held.dedup();
                    prop_assert_eq!(held.len(), count);
                }
                prop_assert_eq!(rows.len(), open.len());
            }
            // Whoever still waits is served once the others let go.
            while !open.is_empty() {
                let served = open.iter().position(|ticket| gate.ahead(&name(), *ticket).is_none());
                let served = served.expect("somebody holds a slot while others wait");
                gate.release(&name(), open.remove(served));
            }
        }
    }
}
