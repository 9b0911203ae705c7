//! Addresses that must not be reached, in every way to write them, and pages as text.

use super::*;
use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Mutex;

/// Gives one answer after the other, the last one for ever, and counts.
struct Scripted {
    answers: Vec<Vec<IpAddr>>,
    asked: Mutex<Vec<String>>,
}

impl Scripted {
    fn new(answers: &[&[&str]]) -> Self {
        let read = |answer: &&[&str]| answer.iter().map(|ip| ip.parse().unwrap()).collect();
        Self {
            answers: answers.iter().map(read).collect(),
            asked: Mutex::default(),
        }
    }

    fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

impl Resolver for Scripted {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let mut asked = self.asked.lock().unwrap();
        asked.push(name.to_owned());
        let at = asked.len().min(self.answers.len()) - 1;
        Ok(self.answers[at].clone())
    }
}

fn everything(_: &str) -> bool {
    true
}

/// What a fetch does up to its connection.
async fn reach(url: &str, ports: &[u16], resolver: &Scripted) -> Result<Addresses, FetchError> {
    let ports = ports.iter().copied().collect();
    let target = Trail::new(&everything, &ports).begin(url)?;
    let addresses = look_up(&target, resolver).await?;
    addresses.connect().await?;
    Ok(addresses)
}

/// Ways to write an address of this box or of a network that is not the public one; `PORT` is that
/// of a service that listens. The resolver leads every name to 127.0.0.1.
const INNER: &[&str] = &[
    "http://127.0.0.1:PORT/",
    "HTTP://127.0.0.1:PORT/",
    "http://127.1:PORT/",
    "http://127.0.1:PORT/",
    "http://0127.0.0.1:PORT/",
    "http://0177.0.0.1:PORT/",
    "http://127.0.0.01:PORT/",
    "http://0x7f.0.0.1:PORT/",
    "http://0x7f.0x0.0x0.0x1:PORT/",
    "http://0x7f000001:PORT/",
    "http://0X7F000001:PORT/",
    "http://2130706433:PORT/",
    "http://017700000001:PORT/",
    "http://127.0.0.1.:PORT/",
    "http://127.0.0.1..:PORT/",
    "http://.127.0.0.1:PORT/",
    "http://127.0.0.256:PORT/",
    "http://127.0.0.1%00:PORT/",
    "http://127.0.0.1%20:PORT/",
    "http://%31%32%37.0.0.1:PORT/",
    "http://127。0。0。1:PORT/",
    "http://１２７.０.０.１:PORT/",
    "http://①②⑦.⓪.⓪.①:PORT/",
    "http://127.0.0.1\u{200b}:PORT/",
    "http://127.0.0.1\u{ad}:PORT/",
    "http://127.0.0.1\t:PORT/",
    "http://127.0.0.1\n:PORT/",
    " http://127.0.0.1:PORT/",
    "http:// 127.0.0.1:PORT/",
    "http:/127.0.0.1:PORT/",
    "http:127.0.0.1:PORT/",
    "http:///127.0.0.1:PORT/",
    "http:\\\\127.0.0.1:PORT\\",
    "http://example.org\\@127.0.0.1:PORT/",
    "http://example.org@127.0.0.1:PORT/",
    "http://example.org:80@127.0.0.1:PORT/",
    "http://127.0.0.1:PORT@example.org/",
    "http://@127.0.0.1:PORT/",
    "http://:@127.0.0.1:PORT/",
    "http://127.0.0.1:PORT:80/",
    "http://127.0.0.1:+PORT/",
    "http://127.0.0.1:0/",
    "http://127.0.0.1:/",
    "http://0:PORT/",
    "http://0.0.0.0:PORT/",
    "http://0.0.0.1:PORT/",
    "http://127.255.255.254:PORT/",
    "http://[::1]:PORT/",
    "http://[0:0:0:0:0:0:0:1]:PORT/",
    "http://[0000::0001]:PORT/",
    "http://[::]:PORT/",
    "http://[::ffff:127.0.0.1]:PORT/",
    "http://[::ffff:7f00:1]:PORT/",
    "http://[::FFFF:7F00:0001]:PORT/",
    "http://[::127.0.0.1]:PORT/",
    "http://[64:ff9b::127.0.0.1]:PORT/",
    "http://[2002:7f00:1::]:PORT/",
    "http://[2001:0:7f00:1::]:PORT/",
    "http://[::1%25lo]:PORT/",
    "http://[::1%lo]:PORT/",
    "http://[fe80::1%25eth0]:PORT/",
    "http://[fd00::1]:PORT/",
    "http://::1:PORT/",
    "http://[[::1]]:PORT/",
    "http://[127.0.0.1]:PORT/",
    "http://localhost:PORT/",
    "http://LOCALHOST:PORT/",
    "http://localhost.:PORT/",
    "http://localhost.localdomain:PORT/",
    "http://ip6-localhost:PORT/",
    "http://a.localhost:PORT/",
    "http://127.0.0.1.nip.test:PORT/",
    "http://inner.example.org:PORT/",
    "https://inner.example.org:PORT/",
    "http://169.254.169.254/latest/meta-data/",
    "http://2852039166/latest/meta-data/",
    "http://metadata.internal/",
    "http://10.0.0.1/",
    "http://172.16.0.1/",
    "http://192.168.0.1/",
    "http://100.64.0.1/",
    "ftp://127.0.0.1:PORT/",
    "file:///etc/passwd",
    "gopher://127.0.0.1:PORT/_x",
    "unix:///run/x.sock",
    "//127.0.0.1:PORT/",
    "127.0.0.1:PORT",
    "",
];

#[tokio::test]
async fn no_spelling_of_an_inner_address_makes_a_connection() {
    const { assert!(INNER.len() >= 60) };
    let tap = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = tap.local_addr().unwrap().port();
    let resolver = Scripted::new(&[&["127.0.0.1"]]);
    for written in INNER {
        let url = written.replace("PORT", &port.to_string());
        let reached = reach(&url, &[port], &resolver).await;
        let error = reached.expect_err(&url);
        assert!(
            matches!(error, FetchError::Url(_) | FetchError::NotPublic(_))
                && error.code() == Code::FetchRefused,
            "{url}: {error}"
        );
    }
    // Had anything connected, it would be the first in the queue.
    let own = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let (_, first) = tap.accept().unwrap();
    assert_eq!(first, own.local_addr().unwrap());
}

#[tokio::test]
async fn a_host_is_looked_up_once_and_what_was_judged_is_what_is_connected_to() {
    let resolver = Scripted::new(&[&["1.1.1.1", "2606:4700::1111"], &["127.0.0.1"]]);
    let target = Target::parse("https://www.example.org/a").unwrap();
    let found = look_up(&target, &resolver).await.unwrap();
    let expect: Vec<SocketAddr> = ["1.1.1.1:443", "[2606:4700::1111]:443"]
        .map(|text| text.parse().unwrap())
        .into();
    assert_eq!(found.all(), expect);
    assert_eq!(resolver.asked(), 1);
    // The name leads home by now, which the next fetch finds.
    let error = look_up(&target, &resolver).await.unwrap_err();
    assert_eq!(error.class(), "address-refused");
}

#[tokio::test]
async fn one_inner_address_among_public_ones_spoils_all() {
    for answer in [
        &["1.1.1.1", "10.0.0.1"][..],
        &["::1", "1.1.1.1"],
        &["1.1.1.1", "::ffff:192.168.0.1"],
        &["1.1.1.1", "64:ff9b::a00:1"],
    ] {
        let target = Target::parse("http://www.example.org/").unwrap();
        let looked = look_up(&target, &Scripted::new(&[answer])).await;
        assert_eq!(looked.unwrap_err().class(), "address-refused", "{answer:?}");
    }
    let target = Target::parse("http://www.example.org/").unwrap();
    let looked = look_up(&target, &Scripted::new(&[&[]])).await;
    assert_eq!(looked.unwrap_err().class(), "dns");
}

#[test]
fn an_address_is_read_in_one_way() {
    let check = |text: &str, expect: &str| {
        assert_eq!(Target::parse(text).unwrap().to_string(), expect, "{text}");
    };
    check("HTTPS://WWW.Example.org", "https://www.example.org/");
    check("https://a.org:443/x?y=z#frag", "https://a.org/x?y=z");
    check("http://a.org:8080?q", "http://a.org:8080/?q");
    check(
        "https://a.org/é b".trim_end_matches(" b"),
        "https://a.org/%C3%A9",
    );
    check("http://[2606:4700:0::1111]/", "http://[2606:4700::1111]/");
    check("http://1.1.1.1/", "http://1.1.1.1/");
    let refuse = |text: &str, expect: UrlError| {
        assert_eq!(Target::parse(text), Err(expect), "{text}");
    };
    refuse("https://u:p@a.org/", UrlError::User);
    refuse("https://bücher.example/", UrlError::Host);
    refuse("https://a..org/", UrlError::Host);
    refuse("https:///x", UrlError::Host);
    refuse("https://a.org:65536/", UrlError::Port);
    refuse("https://a.org/a b", UrlError::Characters);
    refuse("javascript:alert(1)", UrlError::Scheme);
    refuse(
        &format!("https://a.org/{}", "x".repeat(MAX_URL_BYTES)),
        UrlError::TooLong,
    );
}

#[test]
fn each_redirect_is_judged_like_the_first_and_three_are_followed() {
    let admits = |host: &str| host.ends_with("example.org");
    let (granted, none) = (BTreeSet::from([8443]), BTreeSet::new());
    let mut trail = Trail::new(&admits, &granted);
    let first = trail.begin("https://www.example.org/a/b?c").unwrap();
    let mut at = first.clone();
    for (location, expect) in [
        ("d?e#f", "https://www.example.org/a/d?e"),
        ("//m.example.org:8443", "https://m.example.org:8443/"),
        ("/x", "https://m.example.org:8443/x"),
    ] {
        at = trail.follow(&at, location).unwrap();
        assert_eq!(at.to_string(), expect);
    }
    let class = |done: Result<Target, FetchError>| done.unwrap_err().class();
    assert_eq!(class(trail.follow(&at, "/y")), "too-many-redirects");
    for (location, expect) in [
        ("https://evil.test/", "host-not-granted"),
        ("https://127.0.0.1/", "host-not-granted"),
        ("https://www.example.org:22/", "port-not-granted"),
        ("http://www.example.org/", "downgrade"),
        ("file:///etc/passwd", "url"),
        ("https://u@www.example.org/", "url"),
        ("//2130706433/", "url"),
        ("/a\r\nhost: evil", "url"),
    ] {
        let mut trail = Trail::new(&admits, &none);
        assert_eq!(class(trail.follow(&first, location)), expect, "{location}");
    }
    assert_eq!(class(trail.begin("https://evil.test/")), "host-not-granted");
    assert_eq!(
        class(trail.begin("http://www.example.org:22/")),
        "port-not-granted"
    );
}

#[test]
fn a_page_is_read_as_its_words() {
    let check = |html: &str, expect: &str| assert_eq!(text_of(html), expect, "{html}");
    check(
        "<!DOCTYPE html><title>T</title><script>if (a < b) x('</p>')</script><p>One <b>two</b>\n three</p><ul><li>a<li>b</ul>",
        "T\nOne two three\na\nb\n",
    );
    check(
        "a &amp; b &lt;i&gt; &#65;&#x42; &nope; &",
        "a & b <i> AB &nope; &\n",
    );
    check("1 < 2 <!-- <p>no</p> --> yes", "1 < 2 yes\n");
    check("<a title=\"x > y\" href='z'>link</a>", "link\n");
    check("<tr><td>a</td><td>b</td></tr>", "a b\n");
    check("<style>p{}</style  >seen<STYLE>never ends", "seen\n");
    check("<p", "");
    check("&#0;&#xD800;\u{1b}[31m", "&#xD800;[31m\n");
    check("", "");
}

#[test]
fn a_hostile_page_costs_time_by_its_length_alone() {
    const REPEATS: usize = 200_000;
    for piece in ["<", "<script>", "<!--", "&", "</", "<a '", "<p>", "<svg></"] {
        // Quadratic work would take minutes here.
        let text = text_of(&piece.repeat(REPEATS));
        assert!(text.len() <= piece.len() * REPEATS + 1, "{piece}");
    }
}
