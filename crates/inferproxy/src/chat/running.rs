//! The calls under way, so that each can be stopped by its session and number.

use bxcore::id::{ModelCallId, SessionId};
use bxcore::wire::inferproxy::StopReply;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

type Key = (SessionId, ModelCallId);

/// The calls under way. Clones are the same calls.
#[derive(Debug, Clone, Default)]
pub struct Running {
    calls: Arc<Mutex<HashMap<Key, Stoppable>>>,
}

#[derive(Debug, Clone)]
struct Stoppable {
    stop: CancellationToken,
    idle: watch::Receiver<bool>,
}

/// A call under way. Dropping it says that the call is over, and its slot idle.
#[derive(Debug)]
pub struct RunningCall {
    calls: Running,
    key: Key,
    stop: CancellationToken,
    idle: watch::Sender<bool>,
}

impl Running {
    /// Notes a call; none if it is under way already.
    pub fn begin(&self, session: SessionId, call: ModelCallId) -> Option<RunningCall> {
        let key = (session, call);
        let stop = CancellationToken::new();
        let idle = watch::Sender::new(false);
        match self.calls().entry(key.clone()) {
            Entry::Occupied(_) => return None,
            Entry::Vacant(entry) => entry.insert(Stoppable {
                stop: stop.clone(),
                idle: idle.subscribe(),
            }),
        };
        Some(RunningCall {
            calls: self.clone(),
            key,
            stop,
            idle,
        })
    }

    /// Stops a call, and waits so long for its slot to be seen idle.
    pub async fn stop(&self, session: SessionId, call: ModelCallId, wait: Duration) -> StopReply {
        let found = self.calls().get(&(session, call)).cloned();
        let Some(mut call) = found else {
            return StopReply::NotRunning;
        };
        call.stop.cancel();
        let idle = call.idle.wait_for(|idle| *idle);
        match tokio::time::timeout(wait, idle).await {
            // A sender that is gone without a word has panicked: its slot was freed on the way.
            Ok(_) => StopReply::Idle,
            Err(_) => StopReply::Draining,
        }
    }

    /// How many calls are under way, those whose slot drains included.
    pub fn count(&self) -> usize {
        self.calls().len()
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<Key, Stoppable>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RunningCall {
    /// Waits until somebody stops the call.
    pub async fn stopped(&self) {
        self.stop.cancelled().await;
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        self.calls.calls().remove(&self.key);
        self.idle.send_replace(true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Key {
        (SessionId::new("a").unwrap(), ModelCallId(1))
    }

    #[tokio::test]
    async fn a_call_is_under_way_once_and_until_it_is_dropped() {
        let running = Running::default();
        let (session, number) = key();
        let wait = Duration::from_secs(30);
        assert_eq!(
            running.stop(session.clone(), number, wait).await,
            StopReply::NotRunning
        );
        let call = running.begin(session.clone(), number).unwrap();
        assert!(running.begin(session.clone(), number).is_none());
        let stopping = tokio::spawn({
            let (running, session) = (running.clone(), session.clone());
            async move { running.stop(session, number, wait).await }
        });
        call.stopped().await;
        drop(call);
        assert_eq!(stopping.await.unwrap(), StopReply::Idle);
        assert_eq!(running.count(), 0);
    }

    #[tokio::test]
    async fn a_slot_that_is_not_idle_in_time_drains() {
        let running = Running::default();
        let (session, number) = key();
        let _call = running.begin(session.clone(), number).unwrap();
        let wait = Duration::from_millis(20);
        assert_eq!(
            running.stop(session, number, wait).await,
            StopReply::Draining
        );
    }
}
