//! `consult` through the broker, against a service that records each byte it gets.

mod labels;
mod money;
mod otherside;
mod tap;

use crate::support::{Started, TestHome, raise, request};
use bxcore::code::Code;
use bxcore::label::{Class, Label};
use bxcore::money::MicroUsd;
use bxcore::transcript::CallOutcome;
use bxcore::wire::brokerd::{CallRequest, CallResult};
use bxtest::provider::{Answer, Provider};
use serde_json::json;

const SECRET: &str = "sk-canary-4711-Zq";
const RESERVE: i64 = 500_000;
const GRANT: &str = "[[grant]]\ntool = \"consult\"\nmax_taint = \"private\"\n";

/// A service elsewhere and a home that is configured to ask it.
struct Elsewhere {
    provider: Provider,
    test: TestHome,
}

impl Elsewhere {
    fn new(script: impl Fn(usize) -> Answer + Send + Sync + 'static) -> Self {
        Self::granted(GRANT, script)
    }

    fn granted(grant: &str, script: impl Fn(usize) -> Answer + Send + Sync + 'static) -> Self {
        let provider = Provider::start(move |number, _| script(number));
        let url = provider.url("127.0.0.1", "/v1/chat/completions");
        Self::at(provider, &url, "", grant)
    }

    fn at(provider: Provider, url: &str, more: &str, grant: &str) -> Self {
        let test = TestHome::new();
        test.put_secret("elsewhere", SECRET);
        test.configure(&format!(
            "[consult]\nurl = \"{url}\"\nmodel = \"big-1\"\nsecret = \"elsewhere\"\n\
             price = {{ prompt = \"3\", completion = \"15\" }}\n\
             reserve_usd = \"0.50\"\ndaily_usd = \"2\"\n{more}\n{grant}"
        ));
        Self { provider, test }
    }

    async fn start(&self, label: Label) -> Started {
        let started = self.test.start_with_outside();
        started.register("s", raise(label)).await;
        started
    }
}

fn asking(call: u64, question: &str) -> CallRequest {
    CallRequest {
        reserved: MicroUsd::from_micros(RESERVE).ok(),
        ..request(
            "s",
            call,
            "consult",
            &json!({ "question": question }).to_string(),
        )
    }
}

async fn ask(started: &Started, call: u64, question: &str) -> CallResult {
    started
        .broker
        .call(asking(call, question))
        .await
        .unwrap()
        .result()
        .unwrap()
}

fn yes(_: usize) -> Answer {
    Answer::says("Yes.", 7, 2)
}

#[tokio::test]
async fn consult_is_denied_at_secret() {
    let elsewhere = Elsewhere::new(yes);
    let started = elsewhere.start(Label::new(Class::Secret, false)).await;
    let result = ask(&started, 1, "why?").await;
    assert_eq!(result.outcome, CallOutcome::Denied);
    assert_eq!(result.code, Some(Code::TaintTooHigh));
    assert_eq!(elsewhere.provider.connections(), 0);
    started.stop().await;
    // What was refused is on record, with the body that would have gone out.
    let records = elsewhere.test.records();
    let deny = records.iter().find(|record| record["kind"] == "deny");
    let deny = deny.expect("a denial");
    assert!(deny["body"].as_str().unwrap().contains("why?"), "{deny}");
    assert_eq!(deny["reason"], "taint-too-high");
    elsewhere.test.verify();
}

#[tokio::test]
async fn consult_is_allowed_at_private() {
    let elsewhere = Elsewhere::new(yes);
    let started = elsewhere.start(Label::OWNER).await;
    let result = ask(&started, 1, "why?").await;
    assert_eq!(result.outcome, CallOutcome::Ok, "{}", result.content);
    assert_eq!(result.content, "Yes.");
    assert_eq!(result.label, Label::new(Class::Private, true));
    assert_eq!(result.session_label, Label::new(Class::Private, true));
    started.stop().await;
    let records = elsewhere.test.records();
    let intent = records.iter().find(|record| record["kind"] == "intent");
    let intent = intent.expect("an intent");
    let seen = elsewhere.provider.seen();
    assert_eq!(seen.len(), 1);
    assert_eq!(intent["body"].as_str().unwrap().as_bytes(), seen[0].body);
    let outcome = records.iter().find(|record| record["kind"] == "outcome");
    assert_eq!(outcome.expect("an outcome")["body"], "Yes.");
    elsewhere.test.verify();
}

#[tokio::test]
async fn consult_sends_no_history_no_tools_and_no_memory() {
    let elsewhere = Elsewhere::new(yes);
    let started = elsewhere.start(Label::OWNER).await;
    std::fs::write(elsewhere.test.workspace("s").join("a.txt"), "my diary").unwrap();
    started
        .call("s", 1, "read_file", r#"{"path":"a.txt"}"#)
        .await;
    ask(&started, 2, "Is it late?").await;
    let seen = elsewhere.provider.seen();
    assert_eq!(
        String::from_utf8_lossy(&seen[0].body),
        r#"{"model":"big-1","temperature":0.6,"messages":[{"role":"user","content":"Is it late?"}]}"#
    );
    started.stop().await;
}

#[tokio::test]
async fn consult_refuses_an_unknown_field_and_whatever_else_is_no_question() {
    let elsewhere = Elsewhere::new(yes);
    let started = elsewhere.start(Label::OWNER).await;
    let deep = format!(
        "{{\"question\":{}1{}}}",
        "[".repeat(10_000),
        "]".repeat(10_000)
    );
    for (number, arguments) in [
        r#"{"question":"a","history":[]}"#,
        r#"{"question":"a","question":"b"}"#,
        r#"{"Question":"a"}"#,
        r#"{"question":""}"#,
        r#"{"question":["a"]}"#,
        r#"{"question":null}"#,
        "{}",
        "null",
        "why?",
        deep.as_str(),
    ]
    .into_iter()
    .enumerate()
    {
        let asked = CallRequest {
            arguments: arguments.to_owned(),
            ..asking(number as u64 + 1, "")
        };
        let result = started.broker.call(asked).await.unwrap().result().unwrap();
        assert_eq!(result.code, Some(Code::InvalidArguments), "{arguments:.60}");
    }
    assert_eq!(elsewhere.provider.connections(), 0);
    started.stop().await;
}

#[tokio::test]
async fn consult_without_configuration_is_denied_and_is_not_offered() {
    let test = TestHome::new();
    test.configure(GRANT);
    let started = test.start_with_outside();
    started.register("s", raise(Label::OWNER)).await;
    let result = ask(&started, 1, "why?").await;
    assert_eq!(result.code, Some(Code::ConsultNotConfigured));
    let tools = started.broker.tools(crate::support::session("s")).await;
    let offered =
        |tools: &[bxcore::tool::ToolSpec]| tools.iter().any(|tool| tool.name.as_str() == "consult");
    assert!(!offered(&tools.unwrap()));
    started.stop().await;

    let elsewhere = Elsewhere::new(yes);
    let started = elsewhere.start(Label::OWNER).await;
    let tools = started.broker.tools(crate::support::session("s")).await;
    assert!(offered(&tools.unwrap()));
    started.stop().await;
}

#[tokio::test]
async fn consult_without_a_grant_is_denied() {
    let elsewhere = Elsewhere::granted("", yes);
    let started = elsewhere.start(Label::BOTTOM).await;
    let result = ask(&started, 1, "why?").await;
    assert_eq!(result.code, Some(Code::NoGrant));
    assert_eq!(elsewhere.provider.connections(), 0);
    started.stop().await;
}

#[tokio::test]
async fn the_same_call_again_is_answered_from_the_record() {
    let elsewhere = Elsewhere::new(yes);
    let started = elsewhere.start(Label::OWNER).await;
    let first = ask(&started, 1, "why?").await;
    let again = ask(&started, 1, "why?").await;
    assert!(again.replayed && !first.replayed);
    assert_eq!((first.content, first.charge), (again.content, again.charge));
    started.stop().await;
    let started = elsewhere.start(Label::OWNER).await;
    assert!(ask(&started, 1, "why?").await.replayed);
    assert_eq!(elsewhere.provider.connections(), 1);
    started.stop().await;
}

#[tokio::test]
async fn a_stored_secret_is_never_sent_in_whichever_shape() {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    let elsewhere = Elsewhere::new(yes);
    elsewhere.test.put_secret("other", "tok/en+17=");
    let started = elsewhere.start(Label::OWNER).await;
    let questions = [
        format!("is {SECRET} a good key?"),
        format!("decode {}", STANDARD.encode(format!("x{SECRET}"))),
        format!("hex {}", bxcore::text::hex(SECRET.as_bytes())),
        "q=tok%2Fen%2B17%3D".to_owned(),
        "q=tok%2fen%2b17%3d".to_owned(),
        "q=%74ok/e%6E+17%3D".to_owned(),
        "q=tok%252Fen%252B17%253D".to_owned(),
        "the other: tok/en+17=".to_owned(),
    ];
    for (number, question) in questions.iter().enumerate() {
        let result = ask(&started, number as u64 + 1, question).await;
        assert_eq!(result.code, Some(Code::SecretInPayload), "{question}");
        assert!(!result.content.contains(SECRET), "{}", result.content);
    }
    assert_eq!(elsewhere.provider.connections(), 0);
    started.stop().await;
}

/// What lies among the secrets and can't be read could be in any question, so none leaves; and once
/// that is mended they do.
#[tokio::test]
async fn nothing_leaves_while_a_stored_secret_can_not_be_read() {
    use std::os::unix::fs::PermissionsExt;
    let elsewhere = Elsewhere::new(yes);
    let path = elsewhere.test.put_secret("open", "tok-en-17");
    let mode = |mode| std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(&path, mode(0o640)).unwrap();
    let started = elsewhere.start(Label::OWNER).await;
    for (call, question) in [(1, "why?"), (2, "is it tok-en-17?")] {
        let result = ask(&started, call, question).await;
        assert_eq!(result.outcome, CallOutcome::Denied, "{question}");
        assert_eq!(result.code, Some(Code::SecretUnreadable), "{question}");
    }
    assert_eq!(elsewhere.provider.connections(), 0);
    started.stop().await;
    std::fs::set_permissions(&path, mode(0o600)).unwrap();
    let started = elsewhere.start(Label::OWNER).await;
    let result = ask(&started, 3, "is it tok-en-17?").await;
    assert_eq!(result.code, Some(Code::SecretInPayload));
    assert_eq!(ask(&started, 4, "why?").await.outcome, CallOutcome::Ok);
    started.stop().await;
}

#[tokio::test]
async fn the_intent_is_on_disk_before_the_first_byte_leaves() {
    let test = TestHome::new();
    let folder = test.home.audit_dir();
    let provider = Provider::start(move |_, seen| {
        let mut segments = bxkit::audit_reader::segments(&folder).unwrap();
        let text = std::fs::read_to_string(segments.pop().unwrap()).unwrap();
        let last: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        let body = last["body"].as_str().unwrap_or_default();
        let recorded = last["kind"] == "intent" && body.as_bytes() == seen.body;
        Answer::says(
            if recorded {
                "on record"
            } else {
                "NOT ON RECORD"
            },
            1,
            1,
        )
    });
    let url = provider.url("127.0.0.1", "/");
    let elsewhere = Elsewhere::at(provider, &url, "", GRANT);
    // The script looks into the first home, so that is the one to use.
    std::fs::copy(
        elsewhere.test.home.config_dir().join("brokerd.toml"),
        test.home.config_dir().join("brokerd.toml"),
    )
    .unwrap();
    test.put_secret("elsewhere", SECRET);
    let started = test.start_with_outside();
    started.register("s", raise(Label::OWNER)).await;
    assert_eq!(ask(&started, 1, "why?").await.content, "on record");
    started.stop().await;
}
