//! Reading and checking a wire dump.

use bxtest::contract::{BreachKind, Dialect, Rules};
use bxtest::wire;
use serde_json::{Value, json};
use std::path::PathBuf;
use tempfile::TempDir;

use crate::client::{opener, request, with};

fn dump(bodies: &[Value]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wire.jsonl");
    let lines: Vec<String> = bodies.iter().map(|body| format!("{body}\n")).collect();
    std::fs::write(&path, lines.concat()).unwrap();
    (folder, path)
}

fn turns() -> [Value; 2] {
    let more = [
        json!({"role": "assistant", "content": "a"}),
        json!({"role": "user", "content": "b"}),
    ];
    [request(&opener("hi")), request(&with(&opener("hi"), &more))]
}

#[test]
fn a_clean_dump_passes() {
    let (_folder, path) = dump(&turns());
    let report = wire::assert_clean(&path, Rules::strict(Dialect::LlamaServer));
    assert_eq!(report.conversations(), 1);
    assert_eq!(report.links[1].unwrap().extends, Some(0));
    let last = turns()[1]["messages"].to_string().len() - 1;
    assert_eq!(
        report.appended_bytes(),
        last,
        "each byte of the messages was new once"
    );
}

#[test]
fn a_rewritten_message_is_found() {
    let mut bodies = turns();
    bodies[1]["messages"][0]["content"] = "It is 12:01.".into();
    let (_folder, path) = dump(&bodies);
    let report = wire::check(&wire::read(&path), Rules::strict(Dialect::LlamaServer));
    assert_eq!(report.breaches[0].kind, BreachKind::Prefix);
    assert!(report.links[1].is_none());
}

#[test]
fn an_empty_dump_proves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wire.jsonl");
    assert!(wire::read(&path).is_empty());
    let rules = Rules::strict(Dialect::LlamaServer);
    let checked = std::panic::catch_unwind(|| wire::assert_clean(&path, rules));
    assert!(checked.is_err());
}
