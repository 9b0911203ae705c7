//! When a background supervisor leaves. Pure.

use bxcore::wire::loopd::Activity;

/// Knows since when nothing happened.
#[derive(Debug)]
pub(crate) struct IdleWatch {
    idle_ms: u64,
    last_busy_ms: u64,
}

impl IdleWatch {
    /// Nothing is taken to have happened last at `now_ms`.
    pub(crate) fn new(idle_ms: u64, now_ms: u64) -> Self {
        Self {
            idle_ms,
            last_busy_ms: now_ms,
        }
    }

    /// Whether it is time to leave.
    ///
    /// `listeners` are clients that are there now. A loopd that doesn't answer does nothing: a
    /// house that never comes up is left in the end, too.
    pub(crate) fn is_over(
        &mut self,
        now_ms: u64,
        listeners: usize,
        activity: Option<Activity>,
    ) -> bool {
        let busy_ms = match activity {
            _ if listeners > 0 => now_ms,
            // What begins by the clock begins only while somebody looks at it.
            Some(Activity { turns: 1.., .. } | Activity { scheduled: 1.., .. }) => now_ms,
            Some(Activity { idle_ms, .. }) => now_ms.saturating_sub(idle_ms),
            None => 0,
        };
        self.last_busy_ms = self.last_busy_ms.max(busy_ms);
        now_ms.saturating_sub(self.last_busy_ms) >= self.idle_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_and_clients_keep_it_and_their_end_counts() {
        let activity = |turns, idle_ms| {
            Some(Activity {
                turns,
                idle_ms,
                scheduled: 0,
            })
        };
        let mut watch = IdleWatch::new(600, 100);
        for (now_ms, listeners, activity, expect) in [
            (200, 0, activity(0, 9_999), false),
            (699, 0, None, false),
            (700, 0, None, true),
            (700, 1, None, false),
            (1000, 0, activity(1, 0), false),
            (1500, 0, activity(0, 400), false),
            (1699, 0, activity(0, 599), false),
            (1700, 0, activity(0, 600), true),
        ] {
            assert_eq!(
                watch.is_over(now_ms, listeners, activity),
                expect,
                "at {now_ms}"
            );
        }
    }

    #[test]
    fn a_house_with_jobs_stays() {
        let mut watch = IdleWatch::new(600, 0);
        let waiting = Activity {
            turns: 0,
            idle_ms: 10_000,
            scheduled: 1,
        };
        assert!(!watch.is_over(5_000, 0, Some(waiting)));
        assert!(watch.is_over(
            5_600,
            0,
            Some(Activity {
                scheduled: 0,
                ..waiting
            })
        ));
    }
}
