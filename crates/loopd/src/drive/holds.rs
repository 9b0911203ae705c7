//! Holds: the right to run a turn in a session, one holder at a time, first come first served.

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
    /// Takes the hold of a session, waiting behind others if `wait`; `on_wait` is told of a wait.
    pub async fn take(
        &self,
        session: &SessionId,
        wait: bool,
        on_wait: impl FnOnce(),
    ) -> Result<Hold, HoldError> {
        let (turn, seat) = self.enter(session)?;
        let permit = match Arc::clone(&turn).try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) if !wait => return Err(HoldError::Held),
            Err(_) => {
                on_wait();
                // The semaphore is never closed.
                turn.acquire_owned().await.map_err(|_| HoldError::Held)?
            }
        };
        let stop = CancellationToken::new();
        self.with(|sessions| {
            if let Some(place) = sessions.get_mut(session) {
                place.stop = Some(stop.clone());
            }
        });
        Ok(Hold {
            seat,
            stop,
            _permit: permit,
        })
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

    fn enter(&self, session: &SessionId) -> Result<(Arc<Semaphore>, Seat), HoldError> {
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
            let seat = Seat {
                holds: self.clone(),
                session: session.clone(),
            };
            Ok((Arc::clone(&place.turn), seat))
        })
    }

    fn with<T>(&self, act: impl FnOnce(&mut HashMap<SessionId, Place>) -> T) -> T {
        act(&mut self.sessions.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Presence at a session, as holder or waiter; leaving it lets the place go.
#[derive(Debug)]
struct Seat {
    holds: Holds,
    session: SessionId,
}

impl Drop for Seat {
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

/// The right to run a turn in a session. Given back when dropped.
#[derive(Debug)]
pub struct Hold {
    seat: Seat,
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
        &self.seat.session
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.seat.holds.with(|sessions| {
            if let Some(place) = sessions.get_mut(&self.seat.session) {
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
        let first = holds.take(&id("a"), false, || {}).await.unwrap();
        assert_eq!(
            holds.take(&id("a"), false, || {}).await.unwrap_err(),
            HoldError::Held
        );
        let other = holds.take(&id("b"), false, || {}).await.unwrap();
        assert_eq!(holds.count(), 2);
        let waiting = tokio::spawn({
            let holds = holds.clone();
            async move {
                holds
                    .take(&id("a"), true, || {})
                    .await
                    .map(|hold| hold.stop().clone())
            }
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
        let _held = holds.take(&id("a"), false, || {}).await.unwrap();
        let session = id("a");
        let mut waiters: Vec<_> = (0..MAX_WAITING_TURNS)
            .map(|_| Box::pin(holds.take(&session, true, || {})))
            .collect();
        for waiter in &mut waiters {
            assert!(futures_util::poll!(waiter).is_pending());
        }
        let refused = holds.take(&id("a"), true, || {}).await;
        assert_eq!(refused.unwrap_err(), HoldError::Full);
    }
}
