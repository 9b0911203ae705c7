//! Pages from a scripted other side: what is sent to it, and what its answers come to.

use super::*;
use crate::fetch::Addresses;
use bxcore::code::Code;
use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::sync::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::task::JoinHandle;

const LIMITS: Limits = Limits {
    timeout_ms: 30_000,
    max_bytes: 4096,
};

/// Leads every name to the public network, but those with `inner` in them.
struct Public;

impl Resolver for Public {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let ip = if name.contains("inner") {
            "10.0.0.1"
        } else {
            "1.1.1.1"
        };
        Ok(vec![ip.parse().unwrap()])
    }
}

/// What the other side does after its last scripted byte.
#[derive(Clone, Copy)]
enum Then {
    Close,
    Wait,
    Repeat,
}

/// An other side that answers each connection with the next of its texts.
struct Script {
    answers: Vec<Vec<u8>>,
    then: Then,
    seen: Mutex<Vec<JoinHandle<String>>>,
}

impl Dialer for Script {
    type Stream = DuplexStream;

    async fn dial(&self, _: &Target, addresses: &Addresses) -> Result<DuplexStream, FetchError> {
        let mut all = addresses.all().iter();
        assert!(all.all(|at| at.ip().to_string() == "1.1.1.1"));
        let (ours, theirs) = duplex(1024);
        let mut seen = self.seen.lock().unwrap();
        let answer = self.answers[seen.len()].clone();
        seen.push(tokio::spawn(answer_one(theirs, answer, self.then)));
        Ok(ours)
    }
}

/// Fetches from an other side that answers each connection with the next of these texts. Gives
/// what came of it and each request as it was sent.
async fn fetched(
    url: &str,
    answers: &[&[u8]],
    then: Then,
    limits: Limits,
) -> (Result<Page, FetchError>, Vec<String>) {
    let script = Script {
        answers: answers.iter().map(|answer| answer.to_vec()).collect(),
        then,
        seen: Mutex::default(),
    };
    let admits = |host: &str| host.ends_with("example.org");
    let ports = BTreeSet::new();
    let page = fetch(url, Trail::new(&admits, &ports), &Public, &script, limits).await;
    let mut requests = Vec::new();
    for served in script.seen.into_inner().unwrap() {
        requests.push(served.await.unwrap());
    }
    (page, requests)
}

async fn answer_one(mut stream: DuplexStream, answer: Vec<u8>, then: Then) -> String {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => request.push(byte),
            Err(_) => break,
        }
    }
    let mut sent = stream.write_all(&answer).await;
    while matches!(then, Then::Repeat) && sent.is_ok() {
        sent = stream.write_all(b"more and more ").await;
    }
    if matches!(then, Then::Wait) {
        // Until the other side gives up. All that it still says belongs to the request.
        let _ = stream.read_to_end(&mut request).await;
    }
    String::from_utf8(request).unwrap()
}

#[tokio::test]
async fn a_get_has_these_bytes_and_no_others() {
    let answer = b"HTTP/1.1 200 OK\r\nset-cookie: a=b\r\ncontent-type: text/plain\r\ncontent-length: 5\r\n\r\nHello";
    let url = "http://www.example.org/a?b=c#d";
    let (page, requests) = fetched(url, &[answer], Then::Wait, LIMITS).await;
    let page = page.unwrap();
    assert_eq!((&*page.text, page.is_cut), ("Hello", false));
    assert_eq!(page.url, "http://www.example.org/a?b=c");
    let expect = format!(
        "GET /a?b=c HTTP/1.1\r\nhost: www.example.org\r\nuser-agent: {USER_AGENT}\r\naccept: {ACCEPTED}\r\nconnection: close\r\n\r\n"
    );
    assert_eq!(requests, [expect]);
}

#[tokio::test]
async fn redirects_are_followed_as_far_as_they_are_admitted() {
    let to = |location: &str| {
        format!("HTTP/1.1 302 Found\r\nlocation: {location}\r\nset-cookie: a=b\r\ncontent-length: 0\r\n\r\n")
            .into_bytes()
    };
    let page = b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n<p>There".to_vec();
    let url = "http://www.example.org/";
    let go = async |answers: &[Vec<u8>]| {
        let answers: Vec<&[u8]> = answers.iter().map(Vec::as_slice).collect();
        let (page, requests) = fetched(url, &answers, Then::Close, LIMITS).await;
        (page.map_err(|error| error.class()), requests.len())
    };
    let (found, requests) = go(&[to("/x"), to("//b.example.org/"), to("z"), page.clone()]).await;
    assert_eq!(found.unwrap().url, "http://b.example.org/z");
    assert_eq!(requests, 4);
    // A further one, another host, an inner address: no connection is made for any of them.
    let four = [to("/1"), to("/2"), to("/3"), to("/4"), page];
    assert_eq!(go(&four).await, (Err("too-many-redirects"), 4));
    for (location, class) in [
        ("http://evil.test/", "host-not-granted"),
        ("http://inner.example.org/", "address-refused"),
        ("http://2130706433/", "url"),
        ("http://www.example.org:22/", "port-not-granted"),
        ("file:///etc/passwd", "url"),
    ] {
        assert_eq!(go(&[to(location)]).await, (Err(class), 1), "{location}");
    }
}

#[tokio::test]
async fn whatever_the_other_side_does_is_one_request_and_one_class() {
    let head = |head: &str| format!("HTTP/1.1 {head}\r\n\r\n").into_bytes();
    for (answer, class) in [
        (head("404 Not Found\r\ncontent-length: 0"), "status"),
        (head("500 No\r\ncontent-length: 0"), "status"),
        (head("301 Moved\r\ncontent-length: 0"), "status"),
        (
            head("401 No\r\nwww-authenticate: Basic realm=x\r\ncontent-length: 0"),
            "status",
        ),
        (
            head("429 Slow\r\nretry-after: 1\r\ncontent-length: 0"),
            "status",
        ),
        (
            head("200 OK\r\ncontent-type: image/png\r\ncontent-length: 0"),
            "not-text",
        ),
        (
            head("200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 0"),
            "not-text",
        ),
        (
            b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\na\0b".to_vec(),
            "not-text",
        ),
        (
            b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf".to_vec(),
            "cut-off",
        ),
        (
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n".to_vec(),
            "cut-off",
        ),
        (b"SSH-2.0-OpenSSH\r\n".to_vec(), "connection-broken"),
        (b"HTTP/1.1 200".to_vec(), "connection-broken"),
        (Vec::new(), "connection-broken"),
        (
            head(&format!(
                "200 OK{}",
                "\r\na: b".repeat(egress::MAX_HEADERS + 1)
            )),
            "connection-broken",
        ),
    ] {
        let said = String::from_utf8_lossy(&answer).into_owned();
        let url = "http://www.example.org/";
        let (page, requests) = fetched(url, &[&answer], Then::Close, LIMITS).await;
        let error = page.unwrap_err();
        assert_eq!(error.class(), class, "{said}");
        assert_eq!(error.code(), Code::FetchFailed, "{said}");
        assert_eq!(requests.len(), 1, "{said}");
    }
}

#[tokio::test]
async fn a_page_without_end_is_read_up_to_its_limit() {
    let head = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n";
    let (page, _) = fetched("http://www.example.org/", &[head], Then::Repeat, LIMITS).await;
    let page = page.unwrap();
    assert_eq!((page.text.len(), page.is_cut), (LIMITS.max_bytes, true));
}

#[tokio::test]
async fn a_silent_other_side_is_given_up() {
    let limits = Limits {
        timeout_ms: 100,
        ..LIMITS
    };
    for answer in [
        &b""[..],
        b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf",
    ] {
        let (page, requests) =
            fetched("http://www.example.org/", &[answer], Then::Wait, limits).await;
        assert_eq!(page.unwrap_err().class(), "timeout");
        assert_eq!(requests.len(), 1);
    }
}
