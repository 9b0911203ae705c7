//! Keep-alive connections to one socket.

use super::call_error::CallError;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::UnixStream;

/// How many unused connections are kept: as many as sessions may well be at work at once.
pub const MAX_IDLE_CONNECTIONS: usize = 256;

/// How long an unused connection is kept while others are used. The memory that a crowd needed is
/// given back after it.
const MAX_IDLE_SECS: u64 = 10;

/// How often connecting is tried while the server's backlog is full.
const MAX_CONNECT_TRIES: u32 = 50;
const CONNECT_PAUSE_MS: u64 = 5;

/// How long a kept connection may take to become ready.
///
/// It usually is at once. It may never be where an answer overtook its own request's body (a
/// refusal of a large one): hyper then doesn't notice that the body is written.
const READY_WAIT_MS: u64 = 50;

type Sender = SendRequest<Full<Bytes>>;

/// The connections to one socket.
#[derive(Debug)]
pub(super) struct Pool {
    socket: PathBuf,
    /// Those that were used last stand last.
    idle: Mutex<VecDeque<Idle>>,
}

#[derive(Debug)]
struct Idle {
    sender: Sender,
    since: Instant,
}

/// A connection in use. Given back when its answer is read to the end; dropped, it is closed, which
/// tells the server that nobody waits any more.
#[derive(Debug)]
pub(super) struct Lease {
    pool: Arc<Pool>,
    sender: Sender,
}

impl Lease {
    pub(super) fn give_back(self) {
        if self.sender.is_closed() {
            return;
        }
        let since = Instant::now();
        let old = Duration::from_secs(MAX_IDLE_SECS);
        let mut idle = self.pool.idle();
        while idle
            .front()
            .is_some_and(|kept| since.duration_since(kept.since) > old)
        {
            idle.pop_front();
        }
        if idle.len() < MAX_IDLE_CONNECTIONS {
            let sender = self.sender;
            idle.push_back(Idle { sender, since });
        }
    }
}

impl Pool {
    pub(super) fn new(socket: PathBuf) -> Arc<Self> {
        Arc::new(Self {
            socket,
            idle: Mutex::default(),
        })
    }

    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Sends a request and waits for the head of its answer.
    ///
    /// A kept connection may turn out to be closed by now. The request is sent again only if hyper
    /// hands it back, which means that not a byte of it was written.
    pub(super) async fn send(
        self: &Arc<Self>,
        mut request: Request<Full<Bytes>>,
    ) -> Result<(Response<Incoming>, Lease), CallError> {
        // Bound once: others may give connections back meanwhile.
        let kept = self.idle().len();
        for _ in 0..kept {
            let Some(mut sender) = self.take_idle() else {
                break;
            };
            if !is_ready_soon(&mut sender).await {
                continue;
            }
            let path = request.uri().clone();
            match sender.try_send_request(request).await {
                Ok(response) => return Ok((response, self.lease(sender))),
                Err(mut error) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(CallError::cut_off(path.path(), error.error())),
                },
            }
        }
        let unreachable = |source| CallError::Unreachable {
            socket: self.socket.clone(),
            source,
        };
        let mut sender = self.connect().await.map_err(unreachable)?;
        let path = request.uri().clone();
        match sender.try_send_request(request).await {
            Ok(response) => Ok((response, self.lease(sender))),
            Err(error) if error.message().is_some() => {
                Err(unreachable(io::Error::other(error.into_error())))
            }
            Err(error) => Err(CallError::cut_off(path.path(), error.error())),
        }
    }

    async fn connect(&self) -> io::Result<Sender> {
        let stream = self.connect_stream().await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(io::Error::other)?;
        // Ends with the sender; its errors reach whoever waits for the answer.
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to a role ended");
            }
        });
        sender.ready().await.map_err(io::Error::other)?;
        Ok(sender)
    }

    /// Connects; a full backlog is waited out, as Unix sockets don't queue for it.
    async fn connect_stream(&self) -> io::Result<UnixStream> {
        let mut tries = 0;
        loop {
            match UnixStream::connect(&self.socket).await {
                Err(error)
                    if error.kind() == io::ErrorKind::WouldBlock && tries < MAX_CONNECT_TRIES =>
                {
                    tries += 1;
                    tokio::time::sleep(Duration::from_millis(CONNECT_PAUSE_MS)).await;
                }
                other => return other,
            }
        }
    }

    fn lease(self: &Arc<Self>, sender: Sender) -> Lease {
        Lease {
            pool: Arc::clone(self),
            sender,
        }
    }

    /// The connection used last: the others grow old and the server may drop them.
    fn take_idle(&self) -> Option<Sender> {
        self.idle().pop_back().map(|kept| kept.sender)
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, VecDeque<Idle>> {
        // Only pushes and pops happen under the lock, so a panic can't have left it half-done.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn is_ready_soon(sender: &mut Sender) -> bool {
    let wait = Duration::from_millis(READY_WAIT_MS);
    matches!(tokio::time::timeout(wait, sender.ready()).await, Ok(Ok(())))
}
