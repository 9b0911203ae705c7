//! `http_fetch` through the broker: what is decided before it, and what is never connected to.

use crate::support::{Started, TestHome, raise, session};
use bxcore::code::Code;
use bxcore::label::{Class, Label};
use bxcore::transcript::CallOutcome;
use bxcore::wire::brokerd::CallResult;
use bxtest::provider::{Answer, Provider};
use serde_json::json;

/// What comes back taints nothing, so that a session can go on fetching.
const CLEAN: &str =
    "[[grant]]\ntool = \"http_fetch\"\nmax_taint = \"private\"\nuntrusted = false\n";
const GRANT: &str = "[[grant]]\ntool = \"http_fetch\"\nmax_taint = \"private\"\n";

async fn start(test: &TestHome, config: &str, label: Label) -> Started {
    test.configure(config);
    let started = test.start_with_outside();
    started.register("s", raise(label)).await;
    started
}

async fn fetch(started: &Started, call: u64, url: &str) -> CallResult {
    let arguments = json!({ "url": url }).to_string();
    started.call("s", call, "http_fetch", &arguments).await
}

#[tokio::test]
async fn no_page_of_this_box_is_fetched_however_its_address_is_written() {
    let inner = Provider::start(|_, _| Answer::Text(200, Vec::new(), b"inner".to_vec()));
    let port = inner.port();
    let test = TestHome::new();
    let config = format!("{CLEAN}ports = [{port}]\n");
    let started = start(&test, &config, Label::OWNER).await;
    for (number, host) in [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "localhost",
        "LOCALHOST.",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "0.0.0.0",
        "user@127.0.0.1",
        "127.0.0.1%00",
        "127。0。0。1",
    ]
    .into_iter()
    .enumerate()
    {
        let call = number as u64 + 1;
        let result = fetch(&started, call, &format!("http://{host}:{port}/")).await;
        assert_eq!(result.outcome, CallOutcome::Failed, "{host}: {result:?}");
        let refused = [Some(Code::FetchRefused), Some(Code::FetchFailed)];
        assert!(refused.contains(&result.code), "{host}: {result:?}");
        assert!(!result.content.contains("inner"), "{host}");
    }
    assert_eq!(inner.connections(), 0);
    started.stop().await;
    // Each was allowed by the grant, and each is on record before it was tried.
    let records = test.records();
    let intents = records.iter().filter(|record| record["kind"] == "intent");
    assert!(intents.count() >= 14);
    test.verify();
}

#[tokio::test]
async fn a_host_that_no_grant_names_is_denied_before_anything_is_looked_up() {
    let test = TestHome::new();
    let config = format!("{CLEAN}hosts = [\"*.example.org\"]\n");
    let started = start(&test, &config, Label::OWNER).await;
    for (number, url) in [
        "http://example.com/",
        "http://example.org/",
        "http://www.example.org.evil.test/",
        "https://127.0.0.1/",
    ]
    .into_iter()
    .enumerate()
    {
        let result = fetch(&started, number as u64 + 1, url).await;
        assert_eq!(result.code, Some(Code::NoGrant), "{url}: {result:?}");
        assert_eq!(result.outcome, CallOutcome::Denied, "{url}");
    }
    // Neither a host that is named in what is no address at all, nor another scheme.
    for (number, url) in [
        "www.example.org",
        "ftp://www.example.org/",
        "http:///www.example.org",
    ]
    .into_iter()
    .enumerate()
    {
        let result = fetch(&started, number as u64 + 11, url).await;
        assert_eq!(result.code, Some(Code::FetchRefused), "{url}: {result:?}");
    }
    started.stop().await;
}

#[tokio::test]
async fn what_a_session_has_read_decides_whether_it_may_fetch() {
    // An address that is refused when it is fetched: that far it comes only where it is allowed.
    const INNER: &str = "http://127.0.0.1/";
    for (class, untrusted, expect) in [
        (Class::Public, false, Code::FetchRefused),
        (Class::Public, true, Code::FetchRefused),
        (Class::Private, false, Code::FetchRefused),
        (Class::Private, true, Code::UntrustedSession),
        (Class::Secret, false, Code::TaintTooHigh),
        (Class::Secret, true, Code::TaintTooHigh),
    ] {
        let test = TestHome::new();
        let started = start(&test, GRANT, Label::new(class, untrusted)).await;
        let result = fetch(&started, 1, INNER).await;
        assert_eq!(result.code, Some(expect), "{class} {untrusted}");
        let allowed = expect == Code::FetchRefused;
        // What comes back is untrusted, even that nothing does.
        assert_eq!(result.label.untrusted, allowed || untrusted, "{class}");
        started.stop().await;
    }
}

#[tokio::test]
async fn without_a_grant_it_is_denied_and_not_offered_and_a_secret_is_in_no_address() {
    let test = TestHome::new();
    test.put_secret("key", "sk-canary-fetch-1");
    let started = start(&test, "", Label::OWNER).await;
    let result = fetch(&started, 1, "http://example.org/").await;
    assert_eq!(result.code, Some(Code::NoGrant));
    let offered = started.broker.tools(session("s")).await.unwrap();
    assert!(
        offered
            .iter()
            .all(|tool| tool.name.as_str() != "http_fetch")
    );
    started.stop().await;

    let started = start(&test, GRANT, Label::OWNER).await;
    let offered = started.broker.tools(session("s")).await.unwrap();
    assert!(
        offered
            .iter()
            .any(|tool| tool.name.as_str() == "http_fetch")
    );
    for (call, url) in [
        (2, "http://example.org/?key=sk-canary-fetch-1"),
        (3, "http://example.org/?key=sk%2dcanary%2dfetch%2d1"),
        (4, "http://example.org/s%6B-canary-fetch-1"),
    ] {
        let result = fetch(&started, call, url).await;
        assert_eq!(result.code, Some(Code::SecretInPayload), "{url}");
    }
    started.stop().await;
    test.put_secret("two", "of two\nlines");
    let started = start(&test, GRANT, Label::OWNER).await;
    let result = fetch(&started, 5, "http://example.org/").await;
    assert_eq!(result.code, Some(Code::SecretUnreadable));
    started.stop().await;
}

/// What a fetch of an address prints in a network namespace where 9.9.9.9 is a host with a page, and
/// what that host and this one were asked for.
fn in_a_network(url: &str) -> (String, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let pem = bxtest::provider::certificate(&["tea.example.org"]);
    std::fs::write(folder.path().join("host.pem"), pem.host).unwrap();
    std::fs::write(folder.path().join("authority.pem"), pem.authority).unwrap();
    let ran = std::process::Command::new("unshare")
        .args(["--user", "--map-root-user", "--net", "--mount", "python3"])
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/it/fetch/network.py"
        ))
        .arg(folder.path())
        .arg(env!("CARGO_BIN_EXE_brokerd-probe"))
        .args(["fetch", url])
        .output()
        .unwrap();
    let said = String::from_utf8(ran.stdout).unwrap();
    let problems = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{said}{problems}");
    let (asked, said): (Vec<_>, Vec<_>) = said.lines().partition(|line| line.starts_with("asked "));
    (
        said.join("\n"),
        asked.into_iter().map(str::to_owned).collect(),
    )
}

/// Over real sockets, since no machine that tests may reach the real network.
#[test]
fn a_page_of_the_public_network_is_fetched_and_leads_to_no_other_place() {
    const HEADERS: &str = "accept connection host user-agent";
    let (said, asked) = in_a_network("http://9.9.9.9/moved");
    assert_eq!(said, "fetched: http://9.9.9.9/page\n\nTea\nWarm & dry.\n");
    assert_eq!(
        asked,
        [
            format!("asked 9.9.9.9 /moved {HEADERS}"),
            format!("asked 9.9.9.9 /page {HEADERS}")
        ]
    );
    for path in ["inside", "metadata"] {
        let (said, asked) = in_a_network(&format!("http://9.9.9.9/{path}"));
        assert!(said.starts_with("fetch-refused: "), "{said}");
        assert_eq!(asked, [format!("asked 9.9.9.9 /{path} {HEADERS}")]);
    }
    let (said, asked) = in_a_network("http://127.0.0.1/page");
    assert!(said.starts_with("fetch-refused: "), "{said}");
    assert!(asked.is_empty(), "{asked:?}");
    let (said, _) = in_a_network("https://9.9.9.9/page");
    assert!(said.starts_with("fetch-failed: "), "{said}");
}

/// By a name that is looked up, and with a certificate that is checked against the system's
/// authorities.
#[test]
fn a_page_is_fetched_over_https_by_its_name_and_from_nobody_else() {
    let (said, asked) = in_a_network("https://tea.example.org/moved");
    assert_eq!(
        said,
        "fetched: https://tea.example.org/page\n\nTea\nWarm & dry.\n"
    );
    assert_eq!(asked.len(), 2, "{asked:?}");
    // The certificate is another host's.
    let (said, asked) = in_a_network("https://other.example.org/page");
    assert!(said.starts_with("fetch-failed: "), "{said}");
    assert!(asked.is_empty(), "{asked:?}");
    for url in [
        "https://inside.example.org/page",
        "http://inside.example.org/page",
    ] {
        let (said, asked) = in_a_network(url);
        assert!(said.starts_with("fetch-refused: "), "{said}");
        assert!(asked.is_empty(), "{asked:?}");
    }
}
