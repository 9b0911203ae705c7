//! Carries what a process prints to its log, to memory, and on request to the terminal.

use super::logs::{LogFile, Tail};
use super::part::Part;
use bxctl::output::{Output, sanitize};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};

/// The longest line that is kept whole, in bytes; a longer one goes on in the next.
const MAX_LINE_BYTES: u64 = 16 * 1024;

/// Where a process's words go.
#[derive(Debug)]
pub(crate) struct Relay {
    part: Part,
    log: LogFile,
    tail: SharedTail,
    /// Where they are shown, if they are.
    shown: Option<Output>,
}

/// The last words of a process, shared with whoever explains its end.
#[derive(Debug, Clone, Default)]
pub(crate) struct SharedTail(Arc<Mutex<Tail>>);

impl SharedTail {
    fn push(&self, line: String) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(line);
    }

    /// What has been said so far.
    pub(crate) fn now(&self) -> Tail {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Relay {
    pub(crate) fn new(part: Part, log: LogFile, tail: SharedTail, shown: Option<Output>) -> Self {
        Self {
            part,
            log,
            tail,
            shown,
        }
    }

    /// Reads to the end.
    pub(crate) async fn run(mut self, from: impl AsyncRead + Unpin) {
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        loop {
            line.clear();
            match (&mut from)
                .take(MAX_LINE_BYTES)
                .read_until(b'\n', &mut line)
                .await
            {
                Ok(0) | Err(_) => return,
                Ok(_) => self.take(&line),
            }
        }
    }

    fn take(&mut self, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        let text = text.trim_end_matches(['\n', '\r']);
        self.log.line(text);
        if let Some(output) = &self.shown {
            output.note(&format!("{:<10} | {}", self.part.name(), sanitize(text)));
        }
        self.tail.push(text.to_owned());
    }
}
