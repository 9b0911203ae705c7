//! What is kept of a connection beside its messages: why it was broken off, how much came, and the
//! list of tools as it came.

use crate::mcp::failure::McpFailure;
use crate::mcp::limits::{MAX_MESSAGES, MAX_TOTAL_BYTES};
use rmcp::RoleClient;
use rmcp::model::{ClientRequest, JsonRpcMessage, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is kept of one connection.
#[derive(Debug, Default)]
pub(in crate::mcp) struct Noted(Mutex<Notes>);

#[derive(Debug, Default)]
struct Notes {
    failure: Option<McpFailure>,
    messages: usize,
    bytes: usize,
    /// Which request asked for the tools.
    asked: Option<RequestId>,
    list: Option<String>,
}

impl Noted {
    fn lock(&self) -> MutexGuard<'_, Notes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why the connection is broken off; the first reason stays.
    pub(super) fn fail(&self, failure: McpFailure) {
        self.lock().failure.get_or_insert(failure);
    }

    /// Why it was broken off, if it was.
    pub(in crate::mcp) fn take_failure(&self) -> Option<McpFailure> {
        self.lock().failure.take()
    }

    /// The message that had the list of tools.
    pub(in crate::mcp) fn take_list(&self) -> Option<String> {
        self.lock().list.take()
    }

    /// Notes a message that is about to be sent.
    pub(super) fn sending(&self, message: &TxJsonRpcMessage<RoleClient>) {
        if let JsonRpcMessage::Request(request) = message
            && matches!(request.request, ClientRequest::ListToolsRequest(_))
        {
            self.lock().asked = Some(request.id.clone());
        }
    }

    /// Counts bytes that came; no if they are too many.
    pub(super) fn came(&self, bytes: usize) -> bool {
        let mut notes = self.lock();
        notes.bytes = notes.bytes.saturating_add(bytes);
        notes.bytes <= MAX_TOTAL_BYTES
    }

    /// Reads a message.
    ///
    /// # Errors
    /// It is none, or one too many.
    pub(super) fn read(&self, text: &[u8]) -> Result<RxJsonRpcMessage<RoleClient>, McpFailure> {
        let mut notes = self.lock();
        notes.messages += 1;
        if notes.messages > MAX_MESSAGES {
            return Err(McpFailure::TooMuch);
        }
        let message = serde_json::from_slice(text).map_err(|_| McpFailure::NotProtocol)?;
        if let JsonRpcMessage::Response(response) = &message
            && notes.asked.as_ref() == Some(&response.id)
            && notes.list.is_none()
        {
            // It was read as JSON, so it is text.
            notes.list = Some(String::from_utf8_lossy(text).into_owned());
        }
        Ok(message)
    }
}
