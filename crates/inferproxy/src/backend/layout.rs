//! What the slots of a server are for, once it has said how many there are. Pure.

use crate::config::{MAX_SLOTS, SlotsTable};
use bxcore::wire::inferproxy::SlotLayout;

/// A configured slot that the server doesn't have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("slot {slot} is configured, but the server has {total} (0 to {})", total.saturating_sub(1))]
pub struct SlotMissing {
    /// The slot.
    pub slot: u32,
    /// How many there are.
    pub total: u32,
}

/// Lays out the slots of a server that has `total` of them.
///
/// As configured; without configuration the last is for background work and all others for live
/// turns. A request for a slot that doesn't exist would be served on another one without a word,
/// so a configured one that is missing is an error here.
pub fn layout(
    configured: Option<&SlotsTable>,
    seats: &[u32],
    total: u32,
) -> Result<SlotLayout, SlotMissing> {
    let Some(configured) = configured else {
        let last = total.saturating_sub(1);
        let most = u32::try_from(MAX_SLOTS).unwrap_or(u32::MAX);
        return Ok(SlotLayout {
            main: if last == 0 {
                vec![0]
            } else {
                (0..last.min(most)).collect()
            },
            background: last,
            seats: Vec::new(),
        });
    };
    let named = configured
        .main
        .iter()
        .chain([&configured.background])
        .chain(seats);
    match named.copied().find(|slot| *slot >= total) {
        Some(slot) => Err(SlotMissing { slot, total }),
        None => Ok(SlotLayout {
            main: configured.main.clone(),
            background: configured.background,
            seats: seats.to_vec(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_configuration_the_last_slot_is_for_background() {
        let check = |total, main: &[u32], background| {
            let found = layout(None, &[], total).unwrap();
            assert_eq!(
                (found.main.as_slice(), found.background),
                (main, background),
                "{total}"
            );
        };
        check(1, &[0], 0);
        check(2, &[0], 1);
        check(4, &[0, 1, 2], 3);
    }

    #[test]
    fn a_configured_slot_must_exist() {
        let table = SlotsTable {
            main: vec![0],
            background: 2,
        };
        assert_eq!(
            layout(Some(&table), &[], 2),
            Err(SlotMissing { slot: 2, total: 2 })
        );
        assert_eq!(
            layout(Some(&table), &[3], 3),
            Err(SlotMissing { slot: 3, total: 3 })
        );
        assert_eq!(layout(Some(&table), &[3], 4).unwrap().seats, [3]);
    }
}
