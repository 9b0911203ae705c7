//! Whether a silent server is alive. Pure; who calls it keeps the time.
//!
//! A server is looked at twice within the allowed silence, in the middle and at its end: a slot
//! that has moved between the two is at work on something, one that hasn't is stuck.

use crate::slots::SlotLook;

/// What follows from a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pulse {
    /// Wait for the second half.
    Wait,
    /// It is alive: the allowed silence begins anew.
    Alive,
    /// It is stuck.
    Stalled,
}

/// Watches one call through its silences.
#[derive(Debug, Clone, Default)]
pub struct LifeWatch {
    earlier: Option<SlotLook>,
    second_half: bool,
}

impl LifeWatch {
    /// A byte has come: nothing is silent.
    pub fn heard(&mut self) {
        *self = Self::default();
    }

    /// Half of the allowed silence has passed, and the slot looks like this; none where the server
    /// doesn't say.
    pub fn half_passed(&mut self, look: Option<SlotLook>) -> Pulse {
        if !self.second_half {
            self.second_half = true;
            self.earlier = look;
            return Pulse::Wait;
        }
        let moved = look.is_some_and(|look| {
            look.is_processing
                && self
                    .earlier
                    .is_none_or(|earlier| look.has_moved_since(&earlier))
        });
        if !moved {
            return Pulse::Stalled;
        }
        self.second_half = false;
        Pulse::Alive
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(is_processing: bool, prompt_tokens: u64) -> SlotLook {
        SlotLook {
            is_processing,
            task: Some(1),
            prompt_tokens,
            decoded_tokens: 0,
        }
    }

    fn check(looks: &[Option<SlotLook>], expect: &[Pulse]) {
        let mut watch = LifeWatch::default();
        let found: Vec<_> = looks.iter().map(|look| watch.half_passed(*look)).collect();
        assert_eq!(found, expect);
    }

    #[test]
    fn only_movement_is_life() {
        use Pulse::{Alive, Stalled, Wait};
        check(
            &[Some(look(true, 64)), Some(look(true, 128))],
            &[Wait, Alive],
        );
        check(
            &[Some(look(true, 64)), Some(look(true, 64))],
            &[Wait, Stalled],
        );
        check(
            &[Some(look(true, 64)), Some(look(false, 64))],
            &[Wait, Stalled],
        );
        check(&[None, None], &[Wait, Stalled]);
        check(&[None, Some(look(true, 64))], &[Wait, Alive]);
        check(
            &[
                Some(look(true, 1)),
                Some(look(true, 2)),
                Some(look(true, 3)),
                Some(look(true, 3)),
            ],
            &[Wait, Alive, Wait, Stalled],
        );
    }

    #[test]
    fn a_byte_begins_the_silence_anew() {
        let mut watch = LifeWatch::default();
        watch.half_passed(None);
        watch.heard();
        assert_eq!(watch.half_passed(None), Pulse::Wait);
    }
}
