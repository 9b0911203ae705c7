//! Asks the server on loopback whether it is ready, with the few bytes of HTTP that takes.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How long one question may take, in seconds.
const ASK_SECS: u64 = 5;

/// A status line is far shorter; what comes after it isn't read.
const MAX_ANSWER_BYTES: usize = 1024;

/// What the server says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Health {
    /// It serves.
    Ready,
    /// It is there, but not ready: it is loading its model, or doesn't answer.
    NotYet,
}

/// Asks once.
pub(crate) async fn ask(address: SocketAddr) -> Health {
    match tokio::time::timeout(Duration::from_secs(ASK_SECS), status(address)).await {
        Ok(Ok(Some(200))) => Health::Ready,
        _ => Health::NotYet,
    }
}

async fn status(address: SocketAddr) -> io::Result<Option<u16>> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET /health HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    while answer.len() < MAX_ANSWER_BYTES && !answer.contains(&b'\n') {
        if stream.read_buf(&mut answer).await? == 0 {
            break;
        }
    }
    Ok(parse_status(&answer))
}

/// The status code in the first line of an answer.
fn parse_status(answer: &[u8]) -> Option<u16> {
    let line = answer.split(|byte| *byte == b'\n').next()?;
    let line = std::str::from_utf8(line).ok()?;
    let mut words = line.split_ascii_whitespace();
    words
        .next()
        .filter(|version| version.starts_with("HTTP/1."))?;
    words.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    #[test]
    fn the_status_is_read_from_the_first_line() {
        let check =
            |answer: &str, expect: Option<u16>| assert_eq!(parse_status(answer.as_bytes()), expect);
        check("HTTP/1.1 200 OK\r\nServer: llama.cpp\r\n", Some(200));
        check("HTTP/1.1 503 Service Unavailable\r\n", Some(503));
        check("HTTP/1.0 200", Some(200));
        check("SSH-2.0-OpenSSH_9.6\r\n", None);
        check("HTTP/1.1 ok\r\n", None);
        check("", None);
    }

    #[tokio::test]
    async fn a_server_is_ready_when_it_says_so_and_not_before() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move {
            for answer in [
                "HTTP/1.1 503 Service Unavailable\r\n\r\n",
                "",
                "HTTP/1.1 200 OK\r\n\r\n",
            ] {
                let (mut stream, _) = listener.accept().await.unwrap();
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        let seen = [ask(address).await, ask(address).await, ask(address).await];
        assert_eq!(seen, [Health::NotYet, Health::NotYet, Health::Ready]);
        server.await.unwrap();
        assert_eq!(ask(address).await, Health::NotYet, "nobody listens");
    }
}
