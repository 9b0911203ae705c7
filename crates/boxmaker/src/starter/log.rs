//! Copies the engine's log to a file of bounded size, and keeps its last lines for error messages.

use super::tail::Tail;
use std::fs::File;
use std::io::{Seek, Write};
use std::path::Path;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::ChildStderr;
use tokio::task::JoinHandle;
use tokio::time::{Duration, timeout};

/// A log file is started over when it is larger than this.
const MAX_LOG_BYTES: u64 = 1024 * 1024;

/// What is read of one line at most, in bytes.
const MAX_LINE_BYTES: u64 = 16 * 1024;

/// How long the end of the log is waited for once the child has ended, in seconds.
const END_SECS: u64 = 2;

/// The task that copies; it ends with the child's stream.
#[derive(Debug)]
pub(crate) struct LogCopy {
    task: JoinHandle<Tail>,
}

impl LogCopy {
    /// The last lines of a child that has ended.
    pub(crate) async fn tail(mut self) -> String {
        match timeout(Duration::from_secs(END_SECS), &mut self.task).await {
            Ok(Ok(tail)) => tail.text(),
            // A grandchild keeps the stream open, or the task failed: there is nothing to show.
            _ => Tail::default().text(),
        }
    }
}

impl Drop for LogCopy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Starts to copy. A file that can't be written is no reason not to run: the tail is kept all the same.
pub(crate) fn copy_log(stream: Option<ChildStderr>, file: &Path) -> LogCopy {
    let file = File::create(file).ok();
    let task = tokio::spawn(async move {
        let mut tail = Tail::default();
        let Some(stream) = stream else { return tail };
        let mut log = LogFile { file, bytes: 0 };
        let mut reader = BufReader::new(stream);
        loop {
            let mut line = Vec::new();
            match (&mut reader)
                .take(MAX_LINE_BYTES)
                .read_until(b'\n', &mut line)
                .await
            {
                Ok(0) | Err(_) => return tail,
                Ok(_) => {
                    log.write(&line);
                    tail.push(&String::from_utf8_lossy(&line));
                }
            }
        }
    });
    LogCopy { task }
}

struct LogFile {
    file: Option<File>,
    bytes: u64,
}

impl LogFile {
    fn write(&mut self, line: &[u8]) {
        let Some(file) = self.file.as_mut() else {
            return;
        };
        self.bytes += line.len() as u64;
        if self.bytes > MAX_LOG_BYTES {
            self.bytes = line.len() as u64;
            if file.set_len(0).and_then(|()| file.rewind()).is_err() {
                return;
            }
        }
        let _ = file.write_all(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_never_grows_beyond_its_bound() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut log = LogFile {
            file: Some(File::create(&path).unwrap()),
            bytes: 0,
        };
        let line = vec![b'x'; 64 * 1024];
        for _ in 0..40 {
            log.write(&line);
            assert!(path.metadata().unwrap().len() <= MAX_LOG_BYTES);
        }
        log.write(b"last\n");
        assert!(std::fs::read(&path).unwrap().ends_with(b"last\n"));
    }
}
