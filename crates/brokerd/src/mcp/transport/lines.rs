//! A program in the sandbox: one message a line, each way.

use super::noted::Noted;
use crate::mcp::failure::McpFailure;
use crate::mcp::limits::MAX_LINE_BYTES;
use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::Mutex;

/// How much is read at once, in bytes.
const PIECE_BYTES: usize = 64 * 1024;

/// Messages as lines over a socket.
#[derive(Debug)]
pub(in crate::mcp) struct Lines {
    from: OwnedReadHalf,
    to: Arc<Mutex<OwnedWriteHalf>>,
    /// What came and was not read yet. It stays over a read that is given up half way.
    pending: Vec<u8>,
    /// How much of it is known to have no end of a line.
    seen: usize,
    noted: Arc<Noted>,
}

impl Lines {
    pub(in crate::mcp) fn new(wire: UnixStream, noted: Arc<Noted>) -> Self {
        let (from, to) = wire.into_split();
        Self {
            from,
            to: Arc::new(Mutex::new(to)),
            pending: Vec::new(),
            seen: 0,
            noted,
        }
    }

    /// The next line without its end.
    async fn next(&mut self) -> Result<Vec<u8>, McpFailure> {
        loop {
            if let Some(end) = memchr::memchr(b'\n', &self.pending[self.seen..]) {
                let mut line: Vec<u8> = self.pending.drain(..=self.seen + end).collect();
                self.seen = 0;
                line.pop();
                return Ok(line);
            }
            self.seen = self.pending.len();
            if self.seen > MAX_LINE_BYTES {
                return Err(McpFailure::TooLong {
                    max_bytes: MAX_LINE_BYTES,
                });
            }
            let mut piece = vec![0; PIECE_BYTES];
            match self.from.read(&mut piece).await {
                Ok(0) | Err(_) => return Err(McpFailure::ended()),
                Ok(length) if self.noted.came(length) => {
                    self.pending.extend_from_slice(&piece[..length]);
                }
                Ok(_) => return Err(McpFailure::TooMuch),
            }
        }
    }
}

impl Transport<RoleClient> for Lines {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        self.noted.sending(&message);
        let to = Arc::clone(&self.to);
        async move {
            let mut line = serde_json::to_vec(&message).map_err(io::Error::other)?;
            line.push(b'\n');
            to.lock().await.write_all(&line).await
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let read = self.next().await.and_then(|line| self.noted.read(&line));
        read.map_err(|failure| self.noted.fail(failure)).ok()
    }

    async fn close(&mut self) -> io::Result<()> {
        self.to.lock().await.shutdown().await
    }
}
