//! Waits until a server has let go of a slot whose call was broken off.

use crate::backend::{Backend, SlotsError};
use crate::limits::{BLIND_DRAIN_MS, DRAIN_POLL_MS, Limits, SLOW_DRAIN_POLL_MS};
use crate::slots::{SlotDrain, SlotLook};
use std::time::{Duration, Instant};

/// How often a slot must be seen idle, one look after the other, where the server may not have
/// begun yet: it could still find the request in its socket.
const IDLE_LOOKS_BEFORE_BEGIN: u32 = 2;

/// Whether the server had begun to answer when the call was broken off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// It had sent something.
    Begun,
    /// It had sent nothing.
    Unknown,
}

/// Waits until the slot is idle; nobody gets it meanwhile.
pub(super) async fn drain(backend: &Backend, slot: SlotDrain, progress: Progress, limits: &Limits) {
    let began = Instant::now();
    let mut watch = DrainWatch::new(progress);
    while began.elapsed() < limits.drain_max {
        match backend.look_at_slots().await {
            // A slot that is gone can't be busy.
            Ok(page) => match page.slot(slot.slot()) {
                Some(look) if !watch.is_over(&look) => {}
                _ => return,
            },
            Err(SlotsError::NotShown(_)) => {
                tokio::time::sleep(Duration::from_millis(BLIND_DRAIN_MS)).await;
                return;
            }
            Err(SlotsError::Unreachable(error)) if error.nothing_was_sent() => {
                // Nobody listens: with the server its work is gone.
                backend.distrust();
                return;
            }
            Err(error) => tracing::debug!(%error, "a draining slot could not be looked at"),
        }
        let poll_ms = if began.elapsed() < limits.stop_wait {
            DRAIN_POLL_MS
        } else {
            SLOW_DRAIN_POLL_MS
        };
        tokio::time::sleep(Duration::from_millis(poll_ms)).await;
    }
    let name = &backend.spec().name;
    tracing::warn!(backend = %name, slot = slot.slot(), "a slot never became idle; it is given out again");
}

/// Decides from looks at a slot whether it has let go.
#[derive(Debug)]
struct DrainWatch {
    task: Option<i64>,
    idle_looks_left: u32,
}

impl DrainWatch {
    fn new(progress: Progress) -> Self {
        Self {
            task: None,
            idle_looks_left: match progress {
                Progress::Begun => 1,
                Progress::Unknown => IDLE_LOOKS_BEFORE_BEGIN,
            },
        }
    }

    fn is_over(&mut self, look: &SlotLook) -> bool {
        if !look.is_processing {
            self.idle_looks_left = self.idle_looks_left.saturating_sub(1);
            return self.idle_looks_left == 0;
        }
        // Seen at work once, the next idle look counts.
        self.idle_looks_left = 1;
        let before = self.task.replace(look.task.unwrap_or(-1));
        // Another task on the slot is somebody else's: ours has ended.
        look.task.is_some() && before.is_some_and(|before| Some(before) != look.task)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(progress: Progress, looks: &[(bool, i64)], expect: &[bool]) {
        let mut watch = DrainWatch::new(progress);
        let found: Vec<bool> = looks
            .iter()
            .map(|(is_processing, task)| {
                watch.is_over(&SlotLook {
                    is_processing: *is_processing,
                    task: Some(*task),
                    prompt_tokens: 0,
                    decoded_tokens: 0,
                })
            })
            .collect();
        assert_eq!(found, expect);
    }

    #[test]
    fn a_slot_has_let_go_when_it_is_idle_or_works_for_another() {
        check(
            Progress::Begun,
            &[(true, 5), (true, 5), (false, 5)],
            &[false, false, true],
        );
        check(Progress::Begun, &[(true, 5), (true, 6)], &[false, true]);
        check(Progress::Begun, &[(false, 5)], &[true]);
    }

    #[test]
    fn an_idle_slot_that_may_not_have_begun_is_looked_at_twice() {
        check(Progress::Unknown, &[(false, 4), (false, 4)], &[false, true]);
        check(
            Progress::Unknown,
            &[(false, 4), (true, 5), (false, 5)],
            &[false, false, true],
        );
    }
}
