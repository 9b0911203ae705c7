//! What kind of server listens at an address, asked in the few bytes of HTTP that takes.
//!
//! Only after the role's own check has found the address to be on this machine or in the owner's
//! network.

use super::Kind;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

/// How long each step of the question may take, in seconds.
const STEP_SECS: u64 = 3;

/// The most of an answer that is read, in bytes.
const MAX_ANSWER_BYTES: u64 = 256 * 1024;

/// The kind of the server at `url`; none if nobody answers.
pub(super) fn kind(url: &str) -> Option<Kind> {
    let (host, authority) = host(url)?;
    let address = authority.to_socket_addrs().ok()?.next()?;
    let answer = ask(address, &host).ok()?;
    kind_of(&answer)
}

/// The host with its port as it stands in the address, and the same with a port in any case.
fn host(url: &str) -> Option<(String, String)> {
    let host = url.strip_prefix("http://")?.split(['/', '?', '#']).next()?;
    if host.is_empty() || host.contains('@') {
        return None;
    }
    let after_address = host.rsplit(']').next().unwrap_or(host);
    let authority = if after_address.contains(':') {
        host.to_owned()
    } else {
        format!("{host}:80")
    };
    Some((host.to_owned(), authority))
}

fn ask(address: SocketAddr, host: &str) -> io::Result<Vec<u8>> {
    let step = Some(Duration::from_secs(STEP_SECS));
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(STEP_SECS))?;
    stream.set_read_timeout(step)?;
    stream.set_write_timeout(step)?;
    let request = format!(
        "GET /props HTTP/1.1\r\nHost: {host}\r\nAccept: application/json\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(MAX_ANSWER_BYTES).read_to_end(&mut answer)?;
    Ok(answer)
}

/// llama-server alone tells its slots under `/props`; it also says so while it loads its model.
fn kind_of(answer: &[u8]) -> Option<Kind> {
    let answer = String::from_utf8_lossy(answer);
    let status = answer.strip_prefix("HTTP/1.")?.split(' ').nth(1)?;
    let has_slots = status == "200" && answer.contains("\"total_slots\"");
    let loads = status == "503" && answer.contains("Loading model");
    Some(if has_slots || loads {
        Kind::LlamaServer
    } else {
        Kind::Openai
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn llama_server_is_known_by_its_slots() {
        let check =
            |answer: &str, expect| assert_eq!(kind_of(answer.as_bytes()), expect, "{answer}");
        check(
            "HTTP/1.1 200 OK\r\n\r\n{\"total_slots\":3}",
            Some(Kind::LlamaServer),
        );
        check(
            "HTTP/1.1 503 Service Unavailable\r\n\r\n{\"error\":{\"message\":\"Loading model\"}}",
            Some(Kind::LlamaServer),
        );
        check("HTTP/1.1 200 OK\r\n\r\n<html>", Some(Kind::Openai));
        check(
            "HTTP/1.1 404 Not Found\r\n\r\n{\"x\":\"total_slots\"}",
            Some(Kind::Openai),
        );
        check("SSH-2.0", None);
        check("", None);
    }

    #[test]
    fn a_port_is_added_where_there_is_none() {
        let check = |url: &str, expect: Option<&str>| {
            assert_eq!(
                host(url).map(|(_, authority)| authority).as_deref(),
                expect,
                "{url}"
            );
        };
        check("http://127.0.0.1:8080/v1", Some("127.0.0.1:8080"));
        check("http://box", Some("box:80"));
        check("http://[::1]", Some("[::1]:80"));
        check("http://[::1]:8080", Some("[::1]:8080"));
        check("https://box", None);
        check("http://me@box", None);
        check("http://", None);
    }

    #[test]
    fn a_server_that_says_nothing_in_time_is_none() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || drop(listener.accept()));
        assert_eq!(kind(&url), None);
        server.join().unwrap();
    }
}
