//! Holds: a turn runs only while it has its session's hold, and nobody else can have it meanwhile.
//! Those who wait get it in the order in which they came.

use bxcore::id::SessionId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// How many turns may wait for one session.
pub const MAX_WAITING_TURNS: usize = 64;

/// Why a hold is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HoldError {
    /// Another turn has it, and the caller does not want to wait.
    #[error("another turn holds the session")]
    Held,
    /// [`MAX_WAITING_TURNS`] wait already.
    #[error("{MAX_WAITING_TURNS} turns wait for the session already")]
    Full,
}

/// All sessions that are held or waited for. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Holds {
    sessions: Arc<Mutex<HashMap<SessionId, Place>>>,
}

#[derive(Debug)]
struct Place {
    turn: Arc<Semaphore>,
    /// Holder and waiters together; the place goes when nobody is left.
    present: usize,
    stop: Option<CancellationToken>,
}

impl Holds {
    /// Takes the hold of a session that nobody else has or waits for.
    pub fn try_take(&self, session: &SessionId) -> Result<Hold, HoldError> {
        let (turn, presence) = self.enter(session)?;
        let permit = turn.try_acquire_owned().map_err(|_| HoldError::Held)?;
        Ok(self.held(presence, permit))
    }

    /// Takes the hold of a session behind all who have it or wait for it already.
    ///
    /// Dropping the future leaves the queue.
    pub async fn take(&self, session: &SessionId) -> Result<Hold, HoldError> {
        let (turn, presence) = self.enter(session)?;
        // The semaphore is never closed.
        let permit = turn.acquire_owned().await.map_err(|_| HoldError::Held)?;
        Ok(self.held(presence, permit))
    }

    fn held(&self, presence: Presence, permit: OwnedSemaphorePermit) -> Hold {
        let stop = CancellationToken::new();
        self.with(|sessions| {
            if let Some(place) = sessions.get_mut(&presence.session) {
                place.stop = Some(stop.clone());
            }
        });
        Hold {
            presence,
            stop,
            _permit: permit,
        }
    }

    /// Whether a turn is under way in a session.
    pub fn is_held(&self, session: &SessionId) -> bool {
        self.with(|sessions| {
            sessions
                .get(session)
                .is_some_and(|place| place.stop.is_some())
        })
    }

    /// Whether the turn under way in a session was asked to stop and has not ended yet.
    pub fn is_stopping(&self, session: &SessionId) -> bool {
        self.with(|sessions| {
            let stop = sessions.get(session).and_then(|place| place.stop.as_ref());
            stop.is_some_and(CancellationToken::is_cancelled)
        })
    }

    /// How many turns are under way.
    pub fn count(&self) -> usize {
        self.with(|sessions| {
            sessions
                .values()
                .filter(|place| place.stop.is_some())
                .count()
        })
    }

    /// Asks the turn under way in a session to stop; false if there is none.
    pub fn stop(&self, session: &SessionId) -> bool {
        self.with(
            |sessions| match sessions.get(session).and_then(|place| place.stop.as_ref()) {
                Some(stop) => {
                    stop.cancel();
                    true
                }
                None => false,
            },
        )
    }

    fn enter(&self, session: &SessionId) -> Result<(Arc<Semaphore>, Presence), HoldError> {
        self.with(|sessions| {
            let place = sessions.entry(session.clone()).or_insert_with(|| Place {
                turn: Arc::new(Semaphore::new(1)),
                present: 0,
                stop: None,
            });
            if place.present > MAX_WAITING_TURNS {
                return Err(HoldError::Full);
            }
            place.present += 1;
            let presence = Presence {
                holds: self.clone(),
                session: session.clone(),
            };
            Ok((Arc::clone(&place.turn), presence))
        })
    }

    fn with<T>(&self, act: impl FnOnce(&mut HashMap<SessionId, Place>) -> T) -> T {
        act(&mut self.sessions.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Being at a session, as holder or waiter; the last one to leave lets the place go.
#[derive(Debug)]
struct Presence {
    holds: Holds,
    session: SessionId,
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.holds.with(|sessions| {
            if let Some(place) = sessions.get_mut(&self.session) {
                place.present -= 1;
                if place.present == 0 {
                    sessions.remove(&self.session);
                }
            }
        });
    }
}

/// What lets one turn run in its session. Given back when dropped.
#[derive(Debug)]
pub struct Hold {
    presence: Presence,
    stop: CancellationToken,
    _permit: OwnedSemaphorePermit,
}

impl Hold {
    /// Cancelled when somebody asks the turn to stop.
    pub fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// The session that is held.
    pub fn session(&self) -> &SessionId {
        &self.presence.session
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.presence.holds.with(|sessions| {
            if let Some(place) = sessions.get_mut(&self.presence.session) {
                place.stop = None;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> SessionId {
        SessionId::new(text).unwrap()
    }

    #[tokio::test]
    async fn one_holder_at_a_time_and_nothing_is_left_behind() {
        let holds = Holds::default();
        let first = holds.try_take(&id("a")).unwrap();
        assert_eq!(holds.try_take(&id("a")).unwrap_err(), HoldError::Held);
        let other = holds.try_take(&id("b")).unwrap();
        assert_eq!(holds.count(), 2);
        let waiting = tokio::spawn({
            let holds = holds.clone();
            async move { holds.take(&id("a")).await.map(|hold| hold.stop().clone()) }
        });
        tokio::task::yield_now().await;
        assert!(holds.stop(&id("a")));
        assert!(first.stop().is_cancelled());
        drop(first);
        let stop = waiting.await.unwrap().unwrap();
        assert!(
            !stop.is_cancelled(),
            "a stop is for the turn under way, not for those behind it"
        );
        drop(other);
        assert_eq!(holds.count(), 0);
        assert!(holds.with(|sessions| sessions.is_empty()));
        assert!(!holds.stop(&id("a")));
    }

    #[tokio::test]
    async fn the_queue_is_bounded() {
        let holds = Holds::default();
        let _held = holds.try_take(&id("a")).unwrap();
        let session = id("a");
        let mut waiters: Vec<_> = (0..MAX_WAITING_TURNS)
            .map(|_| Box::pin(holds.take(&session)))
            .collect();
        for waiter in &mut waiters {
            assert!(futures_util::poll!(waiter).is_pending());
        }
        let refused = holds.take(&id("a")).await;
        assert_eq!(refused.unwrap_err(), HoldError::Full);
    }
}
