//! Records of the audit log as text for a person. Pure; what is left out is in the JSON.

use super::super::walk::render_walk;
use crate::output::{Paint, Style, Table, sanitize};
use bxcore::label::Label;
use bxcore::wire::brokerd::{Step, Walk};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// What a person is shown of a record. A later version may have more kinds and members.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Record {
    seq: u64,
    ts: String,
    kind: String,
    session: Option<String>,
    call: Option<u64>,
    /// Of an outcome: the record of its intent.
    intent: Option<u64>,
    tool: Option<String>,
    label: Option<Label>,
    grant: Option<usize>,
    decision: Option<String>,
    reason: Option<String>,
    walk: Option<Vec<Step>>,
    body: Option<String>,
    raw_len: Option<u64>,
    /// Of an intent: its outcome record. Of an outcome: how it ended.
    outcome: Option<Value>,
}

impl Record {
    fn read(value: &Value) -> Self {
        // What can't be read as a record has nothing to show but its JSON.
        Self::deserialize(value).unwrap_or_default()
    }

    /// What was decided, or how it ended, in a word or two.
    fn result(&self) -> String {
        let ended = self.outcome.as_ref().and_then(Value::as_str);
        let word = ended.or(self.decision.as_deref()).unwrap_or("-");
        match &self.reason {
            Some(reason) => format!("{word} [{reason}]"),
            None => word.to_owned(),
        }
    }
}

/// Records as a table, one a row.
pub(super) fn table(records: &[Value], paint: Paint) -> String {
    if records.is_empty() {
        return "nothing was recorded in this home yet\n".to_owned();
    }
    let heads = ["seq", "time", "kind", "session", "tool", "result"];
    let mut table = Table::new(&heads, paint);
    let records: Vec<Record> = records.iter().map(Record::read).collect();
    // An outcome names its intent, and that what it is about.
    let by_seq: BTreeMap<u64, &Record> = records.iter().map(|one| (one.seq, one)).collect();
    for record in &records {
        let intent = record.intent.and_then(|seq| by_seq.get(&seq));
        let tool = record.tool.as_deref();
        let tool = tool.or_else(|| intent.and_then(|intent| intent.tool.as_deref()));
        let kind = match record.intent {
            Some(seq) => format!("{} of {seq}", record.kind),
            None => record.kind.clone(),
        };
        table.row([
            record.seq.to_string().as_str(),
            &record.ts,
            &kind,
            record.session.as_deref().unwrap_or("-"),
            tool.unwrap_or("-"),
            &record.result(),
        ]);
    }
    table.render()
}

/// A record with the decision's steps, what it is about, and how it ended.
pub(super) fn render(value: &Value, paint: Paint) -> String {
    let record = Record::read(value);
    let mut text = head(&record, paint);
    if let Some(steps) = &record.walk {
        let walk = Walk {
            steps: steps.clone(),
            denied: record.reason.as_deref().and_then(bxcore::code::Code::parse),
            grant: record.grant,
        };
        let tool = record.tool.as_deref().unwrap_or("it");
        text.push_str(&render_walk(tool, &walk, paint));
    }
    text.push_str(&body("about", record.body.as_deref()));
    match &record.outcome {
        Some(outcome @ Value::Object(_)) => {
            let outcome = Record::read(outcome);
            text.push_str(&head(&outcome, paint));
            text.push_str(&body("result", outcome.body.as_deref()));
        }
        Some(Value::Null) if record.kind == "intent" => {
            text.push_str("its end is not on record\n");
        }
        _ => {}
    }
    text
}

/// The line that says which record it is and what about.
fn head(record: &Record, paint: Paint) -> String {
    let mut words = vec![record.kind.clone()];
    if let Some(session) = &record.session {
        words.push(match record.call {
            Some(call) => format!("{session} call {call}"),
            None => session.clone(),
        });
    }
    words.extend(record.tool.clone());
    words.extend(record.label.map(|label| label.to_string()));
    if record.outcome.is_some() || record.decision.is_some() || record.reason.is_some() {
        words.push(record.result());
    }
    words.extend(record.raw_len.map(|bytes| format!("{bytes} bytes")));
    let title = paint.paint(Style::Strong, &format!("record {}", record.seq));
    let stamp = paint.paint(Style::Dim, &sanitize(&record.ts));
    format!("{title} {stamp} {}\n", sanitize(&words.join(" · ")))
}

/// Exact bytes, set in.
fn body(what: &str, body: Option<&str>) -> String {
    let Some(body) = body.filter(|body| !body.is_empty()) else {
        return String::new();
    };
    sanitize(body)
        .lines()
        .fold(format!("{what}:\n"), |all, line| {
            format!("{all}    {line}\n")
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn intent() -> Value {
        json!({
            "v": 1, "seq": 3, "ts": "T", "boot": "b", "kind": "intent", "session": "chat-1", "call": 2,
            "tool": "read_file", "label": {"class": "private", "untrusted": false}, "grant": null,
            "decision": "allow", "reason": null,
            "walk": [{"rule": "known", "verdict": "pass", "because": "read_file"}],
            "body": "{\"path\":\"a\"}\nx\u{1b}[2J", "body_len": 9, "body_sha256": "f", "hash": "h",
            "outcome": {
                "seq": 4, "ts": "T2", "kind": "outcome", "outcome": "ok", "intent": 3, "session": "chat-1",
                "call": 2, "tool": "read_file", "label": {"class": "private", "untrusted": true},
                "body": "words", "raw_len": 5, "raw_sha256": "r"
            }
        })
    }

    #[test]
    fn a_decision_is_shown_with_its_steps_and_its_end() {
        insta::assert_snapshot!(render(&intent(), Paint::Plain), @r#"
        record 3 T intent · chat-1 call 2 · read_file · private · allow
        pass  known       read_file
        read_file may run
        about:
            {"path":"a"}
            x
        record 4 T2 outcome · chat-1 call 2 · read_file · private, untrusted · ok · 5 bytes
        result:
            words
        "#);
        let denied = json!({
            "seq": 5, "ts": "T", "kind": "deny", "tool": "shell", "decision": "deny", "reason": "no-grant",
            "walk": [{"rule": "grant", "verdict": "fail", "because": "no grant names it"}]
        });
        insta::assert_snapshot!(render(&denied, Paint::Plain), @"
        record 5 T deny · shell · deny [no-grant]
        FAIL  grant       no grant names it
        shell is denied: no-grant (see docs/runbook/no-grant.md)
        ");
    }

    #[test]
    fn the_latest_are_a_table() {
        let outcome = intent()["outcome"].clone();
        let config = json!({"seq": 1, "ts": "T", "kind": "config", "body": ""});
        let denied = json!({"seq": 5, "ts": "T", "kind": "deny", "tool": "x", "decision": "deny", "reason": "no-grant"});
        let mut begun = intent();
        begun["outcome"].take();
        insta::assert_snapshot!(table(&[config, begun, outcome, denied], Paint::Plain), @"
        seq  time  kind          session  tool       result
        1    T     config        -        -          -
        3    T     intent        chat-1   read_file  allow
        4    T2    outcome of 3  chat-1   read_file  ok
        5    T     deny          -        x          deny [no-grant]
        ");
        assert_eq!(
            table(&[], Paint::Plain),
            "nothing was recorded in this home yet\n"
        );
    }
}
