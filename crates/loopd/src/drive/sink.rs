//! Where a turn's events go: to whoever asked for the turn, for as long as they listen.
//!
//! A turn never depends on its listener: one that goes away or falls too far behind is let go,
//! and the turn works on.

use bxcore::wire::loopd::TurnEvent;
use std::time::Duration;
use tokio::sync::mpsc;

/// How many events wait for a slow listener.
pub const MAX_EVENT_QUEUE: usize = 1_024;
/// How long a full queue holds up the turn before the listener is let go.
const SLOW_LISTENER: Duration = Duration::from_secs(10);

/// The writing end of a turn's events.
#[derive(Debug)]
pub struct EventSink {
    queue: Option<mpsc::Sender<TurnEvent>>,
}

impl EventSink {
    /// A sink and the end to read from.
    pub fn channel() -> (Self, mpsc::Receiver<TurnEvent>) {
        let (sender, receiver) = mpsc::channel(MAX_EVENT_QUEUE);
        (
            Self {
                queue: Some(sender),
            },
            receiver,
        )
    }

    /// For a turn that nobody listens to.
    pub fn nobody() -> Self {
        Self { queue: None }
    }

    /// Tells the listener.
    pub async fn send(&mut self, event: TurnEvent) {
        let Some(queue) = &self.queue else {
            return;
        };
        let sent = match queue.try_send(event) {
            Err(mpsc::error::TrySendError::Full(event)) => {
                queue.send_timeout(event, SLOW_LISTENER).await.is_ok()
            }
            sent => sent.is_ok(),
        };
        if !sent {
            self.queue = None;
        }
    }

    /// Waits until the listener is gone; for ever if there never was one.
    pub async fn gone(&self) {
        match &self.queue {
            Some(queue) => queue.closed().await,
            None => std::future::pending().await,
        }
    }
}
