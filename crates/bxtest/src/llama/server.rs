//! The test's handle on a running scripted server.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::builder::{Builder, Kind};
use super::http;
use super::journal::{Counts, Recorded};
use super::reply::Reply;
use super::shared::Shared;
use crate::contract::{Breach, Breaches};

const WAIT_TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// A scripted server. Dropping it stops it and panics on any breach that it saw.
#[derive(Debug)]
pub struct LlamaServer {
    shared: Arc<Shared>,
    address: SocketAddr,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    stop: CancellationToken,
    thread: JoinHandle<()>,
}

impl LlamaServer {
    /// Sets up a server.
    pub fn builder() -> Builder {
        Builder::new()
    }

    pub(super) async fn launch(shared: Shared, port: u16) -> Self {
        let (server, ready) = Self::prepare(shared, port);
        ready.await.expect("the server's thread runs");
        server
    }

    pub(super) fn launch_blocking(shared: Shared, port: u16) -> Self {
        let (server, ready) = Self::prepare(shared, port);
        ready.blocking_recv().expect("the server's thread runs");
        server
    }

    fn prepare(shared: Shared, port: u16) -> (Self, oneshot::Receiver<()>) {
        let shared = Arc::new(shared);
        let listener = bind(port);
        let address = listener.local_addr().expect("a bound address");
        let (running, ready) = run(listener, Arc::clone(&shared));
        (
            Self {
                shared,
                address,
                running: Some(running),
            },
            ready,
        )
    }

    /// Its address as a client's configuration has it, without a trailing slash.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Which server it plays.
    pub fn kind(&self) -> Kind {
        self.shared.config.kind
    }

    /// Queues one more reply.
    pub fn push(&self, reply: impl Into<Reply>) {
        self.shared.push(reply.into());
    }

    /// How many queued replies are left.
    pub fn queued(&self) -> usize {
        self.shared.queued()
    }

    /// Every chat request so far, in order of arrival.
    pub fn requests(&self) -> Vec<Recorded> {
        self.shared.journal.recorded()
    }

    /// The counters.
    pub fn counts(&self) -> Counts {
        self.shared.journal.counts()
    }

    /// How many slots are at work.
    pub fn busy_slots(&self) -> usize {
        self.shared.slots.busy()
    }

    /// The breaches so far.
    pub fn breaches(&self) -> Vec<Breach> {
        self.shared.journal.breaches()
    }

    /// The breaches so far, which are then forgotten: for a test that provokes them.
    pub fn take_breaches(&self) -> Vec<Breach> {
        self.shared.journal.take_breaches()
    }

    /// The breaches that the test tolerates.
    pub fn tolerated(&self) -> Vec<Breach> {
        self.shared.journal.tolerated()
    }

    /// Panics on any breach so far.
    pub fn assert_clean(&self) {
        let breaches = self.breaches();
        assert!(
            breaches.is_empty(),
            "the scripted server saw:\n{}",
            Breaches(&breaches)
        );
    }

    /// Lets `count` more requests break off their conversation and start a new epoch.
    pub fn allow_new_epochs(&self, count: usize) {
        self.shared.allow_new_epochs(count);
    }

    /// Serves another model from now on.
    pub fn set_model(&self, name: &str) {
        self.shared.set_model(name);
    }

    /// Whether the model loads: every request is then answered 503.
    pub fn set_loading(&self, loading: bool) {
        self.shared.loading.store(loading, Ordering::SeqCst);
    }

    /// Waits until `holds` does.
    ///
    /// # Panics
    /// When it doesn't within 30 seconds.
    pub async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let end = Instant::now() + WAIT_TIMEOUT;
        while !holds(self) {
            assert!(
                Instant::now() < end,
                "waited in vain: {what}; {:?}",
                self.counts()
            );
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// The same as [`LlamaServer::until`] for a test without a runtime.
    pub fn until_blocking(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let end = Instant::now() + WAIT_TIMEOUT;
        while !holds(self) {
            assert!(
                Instant::now() < end,
                "waited in vain: {what}; {:?}",
                self.counts()
            );
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Ends the server at once: connections break, slots and caches are gone, its port is closed.
    pub fn kill(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop.cancel();
            assert!(
                running.thread.join().is_ok(),
                "the scripted server's thread panicked"
            );
            self.shared.slots.reset();
        }
    }

    /// Starts the server again on its port, with cold caches and the same script and journal.
    pub fn restart(&mut self) {
        self.kill();
        let (running, ready) = run(bind(self.address.port()), Arc::clone(&self.shared));
        self.running = Some(running);
        // The socket listens already; whoever connects now is served as soon as the thread runs.
        drop(ready);
    }
}

impl Drop for LlamaServer {
    fn drop(&mut self) {
        if std::thread::panicking() {
            if let Some(running) = self.running.take() {
                running.stop.cancel();
            }
            return;
        }
        self.kill();
        self.assert_clean();
    }
}

fn bind(port: u16) -> TcpListener {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
        .unwrap_or_else(|error| panic!("port {port} of 127.0.0.1: {error}"));
    listener
        .set_nonblocking(true)
        .expect("a socket that does not block");
    listener
}

fn run(listener: TcpListener, shared: Arc<Shared>) -> (Running, oneshot::Receiver<()>) {
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let (ready, is_ready) = oneshot::channel();
    let work = move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
            let _ = ready.send(());
            tokio::select! {
                () = http::serve(listener, shared) => {}
                () = stopped.cancelled() => {}
            }
        });
        // Connections and answers at work end with the runtime.
    };
    let thread = std::thread::Builder::new()
        .name("scripted-llama".to_owned())
        .spawn(work);
    (
        Running {
            stop,
            thread: thread.expect("a thread"),
        },
        is_ready,
    )
}
