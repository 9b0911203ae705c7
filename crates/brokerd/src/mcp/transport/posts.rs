//! A service elsewhere: one request of HTTP for each message of ours, and none besides.
//!
//! What is sent is known before the first byte leaves: a greeting, its confirmation, the question
//! for the tools, and the call, in this order and each at most once. Nothing that the service says
//! makes another request: where it asks something itself, it is not answered.

use super::noted::Noted;
use super::reading::{Awaited, Reading};
use crate::egress::{Client, Head, Refusal};
use crate::mcp::bodies::mean_the_same;
use crate::mcp::failure::McpFailure;
use crate::secrets::Secret;
use axum::http::{HeaderName, HeaderValue};
use bytes::Bytes;
use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::Value;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc;

const ACCEPT: &str = "application/json, text/event-stream";
/// How many messages wait to be read.
const MAX_WAITING: usize = 16;

/// What is sent with.
#[derive(Debug)]
pub(in crate::mcp) struct Sender {
    pub(in crate::mcp) client: Client,
    pub(in crate::mcp) bearer: Option<Secret>,
    /// All that is sent, in its order, as it is on record.
    pub(in crate::mcp) bodies: Vec<Bytes>,
    /// How long one exchange may take, in milliseconds.
    pub(in crate::mcp) within_ms: u64,
}

/// Messages as requests, and answers as messages.
#[derive(Debug)]
pub(in crate::mcp) struct Posts {
    shared: Arc<Shared>,
    incoming: mpsc::Receiver<RxJsonRpcMessage<RoleClient>>,
    broken: mpsc::Receiver<()>,
}

#[derive(Debug)]
struct Shared {
    sender: Sender,
    noted: Arc<Noted>,
    course: Mutex<Course>,
    came: mpsc::Sender<RxJsonRpcMessage<RoleClient>>,
    breaks: mpsc::Sender<()>,
}

/// How far it has come, and what each further request has as headers.
#[derive(Debug, Default)]
struct Course {
    step: usize,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Posts {
    pub(in crate::mcp) fn new(sender: Sender, noted: Arc<Noted>) -> Self {
        let (came, incoming) = mpsc::channel(MAX_WAITING);
        let (breaks, broken) = mpsc::channel(1);
        let shared = Shared {
            sender,
            noted,
            course: Mutex::default(),
            came,
            breaks,
        };
        Self {
            shared: Arc::new(shared),
            incoming,
            broken,
        }
    }
}

impl Shared {
    fn course(&self) -> MutexGuard<'_, Course> {
        self.course.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the exchange for a message, if it is the next of those that are sent.
    async fn exchange(&self, message: &TxJsonRpcMessage<RoleClient>) -> Result<(), McpFailure> {
        let wanted = serde_json::to_value(message).map_err(|_| McpFailure::NotOnRecord)?;
        let Some((step, body)) = self.next(&wanted)? else {
            return Ok(());
        };
        let headers = self.course().headers.clone();
        let head = Head {
            bearer: self.sender.bearer.as_ref().map(Secret::expose),
            accept: ACCEPT,
            more: &headers,
        };
        let within_ms = self.sender.within_ms;
        let answer = self.sender.client.post(head, body, within_ms).await?;
        let Some(id) = wanted.get("id").cloned() else {
            // What a confirmation is answered with says nothing but that it was taken.
            let status = answer.status();
            let refused = Refusal::of(status, answer.retry_after());
            return match refused.filter(|_| !status.is_success()) {
                Some(refusal) => Err(refusal.into()),
                None => Ok(()),
            };
        };
        let awaited = Awaited { id, within_ms };
        let mut reading = Reading::new(&self.noted, awaited);
        let (message, headers) = reading.answer(answer).await?;
        if step == 0 {
            self.course().headers = headers;
        }
        // Whoever reads may be gone.
        let _ = self.came.send(message).await;
        Ok(())
    }

    /// The bytes of a message, which are on record; none for one that is not sent, such as the word
    /// that a request was given up: nobody waits for what comes of it.
    fn next(&self, wanted: &Value) -> Result<Option<(usize, Bytes)>, McpFailure> {
        let mut course = self.course();
        let step = course.step;
        let Some(body) = self.sender.bodies.get(step) else {
            return Ok(None);
        };
        let on_record: Value = serde_json::from_slice(body).map_err(|_| McpFailure::NotOnRecord)?;
        if on_record["method"] != wanted["method"] {
            return Ok(None);
        }
        if !mean_the_same(&on_record, wanted) {
            return Err(McpFailure::NotOnRecord);
        }
        course.step += 1;
        Ok(Some((step, body.clone())))
    }
}

impl Transport<RoleClient> for Posts {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        self.shared.noted.sending(&message);
        let shared = Arc::clone(&self.shared);
        async move {
            if let Err(failure) = shared.exchange(&message).await {
                shared.noted.fail(failure);
                let _ = shared.breaks.try_send(());
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            Ok(())
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        tokio::select! {
            biased;
            message = self.incoming.recv() => message,
            _ = self.broken.recv() => None,
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        Ok(())
    }
}
