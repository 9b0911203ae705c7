//! What goes over the wire, byte for byte.

use super::{Elsewhere, SECRET, ask, yes};
use bxcore::label::Label;
use bxtest::provider::Answer;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::collections::BTreeSet;

/// A grant whose answers taint nothing, so that the session can go on asking.
const CLEAN: &str = "[[grant]]\ntool = \"consult\"\nmax_taint = \"private\"\nuntrusted = false\n";

/// The only headers that are ever sent.
const ALLOWED: [&str; 7] = [
    "host",
    "user-agent",
    "accept",
    "content-type",
    "content-length",
    "authorization",
    "connection",
];

/// Questions of every kind of character: all planes, controls, NUL, quotes, and what looks like
/// escapes of JSON and HTTP.
fn question() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        any::<char>().prop_map(String::from),
        prop::char::range('\u{0}', '\u{1f}').prop_map(String::from),
        prop::char::range('\u{10000}', '\u{10ffff}').prop_map(String::from),
        Just("\\u0000".to_owned()),
        Just("\r\n\r\nGET / HTTP/1.1\r\n".to_owned()),
        Just("\"}],\"tools\":[{\"".to_owned()),
        Just("\u{202e}\u{200b}\u{feff}\u{fffe}".to_owned()),
    ];
    prop::collection::vec(piece, 1..60).prop_map(|pieces| pieces.concat())
}

/// A thousand questions, or as many as `PROPTEST_CASES` says: what is sent is what is on
/// record, the headers are those that are allowed, and the secret is in one of them alone.
#[test]
fn any_question_goes_out_as_it_is_on_record() {
    let cases = std::env::var("PROPTEST_CASES").map_or(1_000, |count| count.parse().unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    // Each costs next to nothing, so that the day's limit holds them all.
    let elsewhere = Elsewhere::granted(CLEAN, |_| Answer::says("Yes.", 1, 1));
    let started = runtime.block_on(elsewhere.start(Label::OWNER));
    let asked = std::cell::RefCell::new(Vec::new());
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    TestRunner::new(config)
        .run(&question(), |question| {
            asked.borrow_mut().push(question.clone());
            let call = asked.borrow().len() as u64;
            let result = runtime.block_on(ask(&started, call, &question));
            prop_assert_eq!(result.content, "Yes.");
            Ok(())
        })
        .unwrap();
    runtime.block_on(started.stop());

    let asked = asked.into_inner();
    let seen = elsewhere.provider.seen();
    let records = elsewhere.test.records();
    let intents: Vec<_> = records
        .iter()
        .filter(|record| record["kind"] == "intent")
        .collect();
    assert_eq!((seen.len(), intents.len()), (asked.len(), asked.len()));
    for ((seen, intent), question) in seen.iter().zip(&intents).zip(&asked) {
        assert_eq!(intent["body"].as_str().unwrap().as_bytes(), seen.body);
        let body: serde_json::Value = serde_json::from_slice(&seen.body).unwrap();
        assert_eq!(body["messages"][0]["content"], question.as_str());
        assert_eq!(seen.line(), "POST /v1/chat/completions HTTP/1.1");
        let mut names = BTreeSet::new();
        for (name, value) in seen.headers() {
            assert!(ALLOWED.contains(&name.as_str()), "{name}");
            assert!(names.insert(name.clone()), "{name} twice");
            let is_bearer = value == format!("Bearer {SECRET}");
            assert_eq!(is_bearer, name == "authorization", "{name}: {value}");
            assert!(is_bearer || !value.contains(SECRET), "{name}");
        }
        assert!(names.contains("authorization"));
    }
    elsewhere.test.verify();
}

/// The secret, once used, is nowhere on the disk but in its own file.
#[tokio::test]
async fn the_secret_is_in_no_file_but_its_own() {
    let elsewhere = Elsewhere::granted(CLEAN, yes);
    let started = elsewhere.start(Label::OWNER).await;
    ask(&started, 1, "why?").await;
    ask(&started, 2, &format!("is it {SECRET}?")).await;
    started.stop().await;
    let own = elsewhere.test.home.secrets_dir().join("elsewhere");
    let mut looked_at = 0;
    let mut folders = vec![elsewhere.test.root.path().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.is_file() && path != own {
                looked_at += 1;
                let bytes = std::fs::read(&path).unwrap();
                let found = bytes
                    .windows(SECRET.len())
                    .any(|at| at == SECRET.as_bytes());
                // The log holds whatever was refused, which is why it is class secret.
                let is_log = path.extension().is_some_and(|ending| ending == "jsonl");
                assert!(!found || is_log, "{}", path.display());
            }
        }
    }
    assert!(looked_at >= 3, "{looked_at} files");
}
