//! What kind of server listens at an address, asked in the few bytes of HTTP that takes.
//!
//! Nothing is sent to an address that is not on this machine or in the owner's network.

use super::Kind;
use bxcore::code::Code;
use bxcore::net::is_own_network;
use bxcore::problem::Problem;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

/// How long each step of the question may take, in seconds.
const STEP_SECS: u64 = 3;

/// How many addresses of one name are looked at.
const MAX_ADDRESSES: usize = 64;

/// The most of an answer that is read, in bytes.
const MAX_ANSWER_BYTES: u64 = 256 * 1024;

/// The kind of the server at `url`; none if nobody answers.
///
/// # Errors
/// As of [`own_addresses`].
pub(super) fn kind(url: &str) -> Result<Option<Kind>, Problem> {
    let addresses = own_addresses(url)?;
    let answer = || {
        let (host, _) = host(url)?;
        ask(*addresses.first()?, &host).ok()
    };
    Ok(answer().and_then(|answer| kind_of(&answer)))
}

/// Where the server at `url` may be asked; nowhere if its name leads nowhere now.
///
/// # Errors
/// All that the name leads to is public.
pub(super) fn own_addresses(url: &str) -> Result<Vec<SocketAddr>, Problem> {
    let found = host(url).and_then(|(_, authority)| authority.to_socket_addrs().ok());
    let found: Vec<SocketAddr> = found.into_iter().flatten().take(MAX_ADDRESSES).collect();
    only_own(url, &found)
}

/// Those of the addresses that are the owner's own. Pure.
fn only_own(url: &str, found: &[SocketAddr]) -> Result<Vec<SocketAddr>, Problem> {
    let is_own = |address: &&SocketAddr| is_own_network(address.ip());
    let own: Vec<SocketAddr> = found.iter().filter(is_own).copied().collect();
    match found.first() {
        Some(public) if own.is_empty() => Err(Problem::new(
            Code::ConfigInvalid,
            "A model server must be on this box or in your own network",
        )
        .detail(format!("{url} leads to {}, which is a public address", public.ip()))
        .hint("a model elsewhere is a [provider.NAME] of brokerd.toml: see \"Providers\" in docs/guide.md")),
        _ => Ok(own),
    }
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
    fn a_public_address_is_refused_before_anything_is_sent() {
        let check = |found: &[&str], expect: Option<&[&str]>| {
            let parsed = |all: &[&str]| -> Vec<SocketAddr> {
                all.iter().map(|text| text.parse().unwrap()).collect()
            };
            let own = only_own("http://box", &parsed(found));
            assert_eq!(own.ok(), expect.map(parsed), "{found:?}");
        };
        check(
            &["127.0.0.1:80", "[::1]:80"],
            Some(&["127.0.0.1:80", "[::1]:80"]),
        );
        check(&["1.1.1.1:80", "192.168.1.2:80"], Some(&["192.168.1.2:80"]));
        check(&["1.1.1.1:80"], None);
        check(&["[2001:db8::1]:80", "8.8.8.8:80"], None);
        check(&[], Some(&[]));
        assert_eq!(
            kind("http://1.1.1.1:80").unwrap_err().code,
            Code::ConfigInvalid
        );
    }

    #[test]
    fn a_server_that_says_nothing_in_time_is_none() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || drop(listener.accept()));
        assert_eq!(kind(&url), Ok(None));
        server.join().unwrap();
    }
}
