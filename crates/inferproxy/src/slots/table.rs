//! The slots of one backend as a state machine: claim, release, drain. Pure, no clock.
//!
//! A slot has at most one holder. A call that ends normally releases it; one that is broken off
//! drains it, since the server may still be at work. A draining slot can be claimed by one call,
//! which may start once the slot has drained.

use bxcore::id::{ModelCallId, SessionId};
use bxcore::wire::inferproxy::{Lane, SlotLayout};
use std::collections::BTreeMap;

/// Who a slot is claimed for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The session.
    pub session: SessionId,
    /// Its number for the model call.
    pub call: ModelCallId,
}

/// One claim of a slot; never given twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ticket {
    slot: u32,
    number: u64,
}

impl Ticket {
    /// The slot that was claimed.
    pub fn slot(self) -> u32 {
        self.slot
    }
}

/// A claim that was granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// The call may start.
    Now(Ticket),
    /// The call has the slot, and may start once it has drained.
    AfterDrain(Ticket),
}

/// Why a claim is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The lane does not own the slot.
    NotOwned {
        /// The slots that it owns.
        owned: Vec<u32>,
    },
    /// Another call has it.
    Busy(Holder),
}

/// What a slot does, as far as this table knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowState {
    /// Nothing of ours.
    Idle,
    /// It serves a call of ours.
    Busy(Holder),
    /// It ends a call of ours that was broken off.
    Draining(Holder),
}

/// One slot for display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The slot.
    pub slot: u32,
    /// What it does.
    pub state: RowState,
    /// For how long, in milliseconds.
    pub for_ms: u64,
}

#[derive(Debug, Clone)]
struct Occupant {
    number: u64,
    holder: Holder,
    since_ms: u64,
}

#[derive(Debug, Clone, Default)]
struct Cell {
    holder: Option<Occupant>,
    draining: Option<Occupant>,
    idle_since_ms: u64,
}

/// All slots of one backend that anybody here has a use for.
#[derive(Debug, Clone)]
pub struct SlotTable {
    layout: SlotLayout,
    cells: BTreeMap<u32, Cell>,
    next_number: u64,
}

impl SlotTable {
    /// A table in which every slot is idle.
    pub fn new(layout: SlotLayout, now_ms: u64) -> Self {
        let mut table = Self {
            layout,
            cells: BTreeMap::new(),
            next_number: 1,
        };
        table.fill(now_ms);
        table
    }

    /// Takes a new layout; slots in use stay so, even where the layout no longer has them.
    pub fn relayout(&mut self, layout: SlotLayout, now_ms: u64) {
        self.layout = layout;
        self.fill(now_ms);
        let used = self.used();
        self.cells.retain(|slot, cell| {
            used.contains(slot) || cell.holder.is_some() || cell.draining.is_some()
        });
    }

    /// What the slots are for.
    pub fn layout(&self) -> &SlotLayout {
        &self.layout
    }

    /// Claims a slot for a call of a lane.
    ///
    /// Seats without slots of their own use the background slot.
    pub fn claim(
        &mut self,
        lane: Lane,
        slot: u32,
        holder: Holder,
        now_ms: u64,
    ) -> Result<Claim, Refusal> {
        let owned = self.owned(lane);
        let (true, Some(cell)) = (owned.contains(&slot), self.cells.get_mut(&slot)) else {
            return Err(Refusal::NotOwned { owned });
        };
        if let Some(other) = &cell.holder {
            return Err(Refusal::Busy(other.holder.clone()));
        }
        let number = self.next_number;
        self.next_number += 1;
        cell.holder = Some(Occupant {
            number,
            holder,
            since_ms: now_ms,
        });
        let ticket = Ticket { slot, number };
        Ok(if cell.draining.is_some() {
            Claim::AfterDrain(ticket)
        } else {
            Claim::Now(ticket)
        })
    }

    /// Whether the call of a ticket may start: it has the slot, and nothing drains there.
    pub fn may_start(&self, ticket: Ticket) -> bool {
        self.cells
            .get(&ticket.slot)
            .is_some_and(|cell| holds(cell.holder.as_ref(), ticket) && cell.draining.is_none())
    }

    /// Ends a claim whose call is over, or never reached the server. A spent ticket does nothing.
    pub fn release(&mut self, ticket: Ticket, now_ms: u64) {
        if let Some(cell) = self.cells.get_mut(&ticket.slot)
            && holds(cell.holder.as_ref(), ticket)
        {
            cell.holder = None;
            cell.idle_since_ms = now_ms;
        }
    }

    /// Ends a claim whose call was broken off while the server was at work on it.
    ///
    /// Gives whether the slot drains now; a spent ticket, or one that never started, does not.
    pub fn drain(&mut self, ticket: Ticket, now_ms: u64) -> bool {
        let Some(cell) = self.cells.get_mut(&ticket.slot) else {
            return false;
        };
        if !holds(cell.holder.as_ref(), ticket) || cell.draining.is_some() {
            return false;
        }
        cell.draining = cell.holder.take().map(|occupant| Occupant {
            since_ms: now_ms,
            ..occupant
        });
        true
    }

    /// Records that the server has let go of a drained slot.
    pub fn drained(&mut self, ticket: Ticket, now_ms: u64) {
        if let Some(cell) = self.cells.get_mut(&ticket.slot)
            && holds(cell.draining.as_ref(), ticket)
        {
            cell.draining = None;
            cell.idle_since_ms = now_ms;
        }
    }

    /// Every slot, in order.
    pub fn rows(&self, now_ms: u64) -> Vec<Row> {
        self.cells
            .iter()
            .map(|(slot, cell)| row(*slot, cell, now_ms))
            .collect()
    }

    fn owned(&self, lane: Lane) -> Vec<u32> {
        match lane {
            Lane::Main => self.layout.main.clone(),
            Lane::Seat if !self.layout.seats.is_empty() => self.layout.seats.clone(),
            Lane::Background | Lane::Seat => vec![self.layout.background],
        }
    }

    fn used(&self) -> Vec<u32> {
        let layout = &self.layout;
        let main = layout.main.iter().chain(&layout.seats).copied();
        main.chain([layout.background]).collect()
    }

    fn fill(&mut self, now_ms: u64) {
        for slot in self.used() {
            self.cells.entry(slot).or_insert_with(|| Cell {
                idle_since_ms: now_ms,
                ..Cell::default()
            });
        }
    }
}

fn holds(occupant: Option<&Occupant>, ticket: Ticket) -> bool {
    occupant.is_some_and(|occupant| occupant.number == ticket.number)
}

fn row(slot: u32, cell: &Cell, now_ms: u64) -> Row {
    let (state, since_ms) = match (&cell.draining, &cell.holder) {
        (Some(old), _) => (RowState::Draining(old.holder.clone()), old.since_ms),
        (None, Some(now)) => (RowState::Busy(now.holder.clone()), now.since_ms),
        (None, None) => (RowState::Idle, cell.idle_since_ms),
    };
    Row {
        slot,
        state,
        for_ms: now_ms.saturating_sub(since_ms),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn layout() -> SlotLayout {
        SlotLayout {
            main: vec![0, 1],
            background: 2,
            seats: vec![],
        }
    }

    fn holder(call: u64) -> Holder {
        Holder {
            session: SessionId::new("a").unwrap(),
            call: ModelCallId(call),
        }
    }

    fn now(claim: Result<Claim, Refusal>) -> Ticket {
        match claim {
            Ok(Claim::Now(ticket)) => ticket,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_lane_gets_its_own_slots_only() {
        let check = |lane, slot, expect: Option<&[u32]>| {
            let refused = SlotTable::new(layout(), 0)
                .claim(lane, slot, holder(1), 0)
                .err();
            let owned = expect.map(|owned| Refusal::NotOwned {
                owned: owned.to_vec(),
            });
            assert_eq!(refused, owned, "{lane:?} {slot}");
        };
        check(Lane::Main, 0, None);
        check(Lane::Main, 1, None);
        check(Lane::Main, 2, Some(&[0, 1]));
        check(Lane::Background, 2, None);
        check(Lane::Background, 0, Some(&[2]));
        check(Lane::Seat, 2, None);
        check(Lane::Seat, 1, Some(&[2]));
        check(Lane::Main, 99, Some(&[0, 1]));
    }

    #[test]
    fn seats_with_slots_keep_to_them() {
        let mut table = SlotTable::new(
            SlotLayout {
                seats: vec![3],
                ..layout()
            },
            0,
        );
        assert!(table.claim(Lane::Seat, 2, holder(1), 0).is_err());
        assert!(table.claim(Lane::Seat, 3, holder(1), 0).is_ok());
    }

    #[test]
    fn a_drained_slot_goes_to_the_one_who_waits() {
        let mut table = SlotTable::new(layout(), 0);
        let first = now(table.claim(Lane::Main, 0, holder(1), 5));
        assert_eq!(
            table.claim(Lane::Main, 0, holder(2), 5),
            Err(Refusal::Busy(holder(1)))
        );
        assert!(table.drain(first, 10));
        assert_eq!(table.rows(14)[0].state, RowState::Draining(holder(1)));
        assert_eq!(table.rows(14)[0].for_ms, 4);
        let Ok(Claim::AfterDrain(second)) = table.claim(Lane::Main, 0, holder(2), 20) else {
            panic!("not granted")
        };
        assert_eq!(
            table.claim(Lane::Main, 0, holder(3), 21),
            Err(Refusal::Busy(holder(2)))
        );
        assert!(!table.may_start(second));
        table.drained(first, 30);
        assert!(table.may_start(second));
        table.release(first, 31);
        assert!(table.may_start(second), "a spent ticket frees nothing");
        table.release(second, 32);
        assert_eq!(
            table.rows(40)[0],
            Row {
                slot: 0,
                state: RowState::Idle,
                for_ms: 8
            }
        );
    }

    #[test]
    fn a_slot_in_use_outlives_a_new_layout() {
        let mut table = SlotTable::new(layout(), 0);
        let ticket = now(table.claim(Lane::Main, 1, holder(1), 0));
        let single = SlotLayout {
            main: vec![0],
            background: 0,
            seats: vec![],
        };
        table.relayout(single.clone(), 1);
        assert_eq!(
            table.rows(1).iter().map(|row| row.slot).collect::<Vec<_>>(),
            [0, 1]
        );
        table.release(ticket, 2);
        table.relayout(single, 3);
        assert_eq!(table.rows(3).len(), 1);
    }

    #[derive(Debug, Clone)]
    enum Step {
        Claim(usize, u32),
        Release(usize),
        Drain(usize),
        Drained(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0..3_usize, 0..4_u32).prop_map(|(lane, slot)| Step::Claim(lane, slot)),
            (0..12_usize).prop_map(Step::Release),
            (0..12_usize).prop_map(Step::Drain),
            (0..12_usize).prop_map(Step::Drained),
        ]
    }

    proptest! {
        #[test]
        fn never_two_calls_at_once_on_a_slot(steps in proptest::collection::vec(step(), 0..60)) {
            let lanes = [Lane::Main, Lane::Background, Lane::Seat];
            let mut table = SlotTable::new(layout(), 0);
            let mut tickets: Vec<Ticket> = Vec::new();
            for (at, step) in steps.into_iter().enumerate() {
                let now_ms = at as u64;
                match step {
                    Step::Claim(lane, slot) => {
                        if let Ok(Claim::Now(ticket) | Claim::AfterDrain(ticket)) =
                            table.claim(lanes[lane], slot, holder(now_ms), now_ms)
                        {
                            prop_assert!(!tickets.contains(&ticket));
                            tickets.push(ticket);
                        }
                    }
                    Step::Release(i) => tickets.get(i).iter().for_each(|t| table.release(**t, now_ms)),
                    Step::Drain(i) => tickets.get(i).iter().for_each(|t| { table.drain(**t, now_ms); }),
                    Step::Drained(i) => tickets.get(i).iter().for_each(|t| table.drained(**t, now_ms)),
                }
                for slot in 0..4 {
                    let running = tickets.iter().filter(|t| t.slot() == slot && table.may_start(**t)).count();
                    prop_assert!(running <= 1);
                    let draining = table.rows(now_ms).iter().any(|row| row.slot == slot && matches!(row.state, RowState::Draining(_)));
                    prop_assert!(!(draining && running == 1));
                }
            }
        }
    }
}
