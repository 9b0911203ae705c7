//! Who wants the house to stay, and whether it still takes anybody in. Pure.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The clients that want the house to stay. Cheap to clone.
///
/// Once it was agreed to leave, nobody is let in any more: a client that is in can be sure that the
/// house does not go from under it by itself.
#[derive(Debug, Clone, Default)]
pub(crate) struct Presence(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    clients: usize,
    leaving: bool,
}

impl Presence {
    /// Lets a client in, for as long as the guard lives; none while the house leaves.
    pub(crate) fn enter(&self) -> Option<Here> {
        let mut state = self.state();
        if state.leaving {
            return None;
        }
        state.clients += 1;
        Some(Here(self.clone()))
    }

    /// How many clients are in.
    pub(crate) fn count(&self) -> usize {
        self.state().clients
    }

    /// Whether the house leaves now: unless more than `at_most` clients are in.
    pub(crate) fn leave(&self, at_most: usize) -> bool {
        let mut state = self.state();
        state.leaving |= state.clients <= at_most;
        state.leaving
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One client that wants the house to stay.
#[derive(Debug)]
pub(crate) struct Here(Presence);

impl Drop for Here {
    fn drop(&mut self) {
        self.0.state().clients -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_let_in_once_the_house_leaves() {
        let presence = Presence::default();
        let (one, two) = (presence.enter(), presence.enter());
        assert_eq!(presence.count(), 2);
        assert!(!presence.leave(1), "two are in");
        drop(two);
        assert!(presence.leave(1), "only the one who asks is in");
        assert!(presence.enter().is_none());
        drop(one);
        assert_eq!(presence.count(), 0);
        assert!(presence.enter().is_none(), "it does not come back");
    }
}
