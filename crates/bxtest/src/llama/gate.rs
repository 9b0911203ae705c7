//! A gate that a scripted reply waits at until the test lets it pass.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Holds replies at a point until the test releases them. Clones are the same gate.
#[derive(Debug, Clone)]
pub struct Gate {
    passes: Arc<Semaphore>,
    arrivals: Arc<AtomicUsize>,
}

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Self {
            passes: Arc::new(Semaphore::new(0)),
            arrivals: Arc::new(AtomicUsize::new(0)),
        }
    }

    /// Lets `count` waiters pass, now or when they come.
    pub fn release(&self, count: usize) {
        self.passes.add_permits(count);
    }

    /// Opens the gate for good.
    pub fn open(&self) {
        self.passes.close();
    }

    /// How many waiters have come so far.
    pub fn arrivals(&self) -> usize {
        self.arrivals.load(Ordering::SeqCst)
    }

    /// Waits until `count` waiters have come to the gate.
    ///
    /// # Panics
    /// When they haven't within 30 seconds.
    pub async fn arrived(&self, count: usize) {
        let end = Instant::now() + ARRIVAL_TIMEOUT;
        while self.arrivals() < count {
            self.check_in_time(end, count);
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// The same as [`Gate::arrived`] for a test without a runtime.
    pub fn arrived_blocking(&self, count: usize) {
        let end = Instant::now() + ARRIVAL_TIMEOUT;
        while self.arrivals() < count {
            self.check_in_time(end, count);
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    fn check_in_time(&self, end: Instant, count: usize) {
        let come = self.arrivals();
        assert!(
            Instant::now() < end,
            "{come} of {count} replies have come to the gate"
        );
    }

    pub(super) async fn pass(&self) {
        self.arrivals.fetch_add(1, Ordering::SeqCst);
        if let Ok(permit) = self.passes.acquire().await {
            permit.forget();
        }
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(2);
