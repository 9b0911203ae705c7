use super::*;
use serde_json::{Value, json};

fn looks(live: bool) -> Looks {
    Looks {
        live,
        paint_out: Paint::Plain,
        paint_err: Paint::Plain,
        columns: 40,
    }
}

/// The pieces of a whole turn, one a line.
fn show(live: bool, events: &[Value]) -> String {
    let mut view = View::new(looks(live));
    let mut text = String::new();
    for event in events {
        let event: TurnEvent = serde_json::from_value(event.clone()).unwrap();
        for piece in view.on(&event) {
            let (kind, piece) = match piece {
                Piece::Out(piece) => ("out   ", piece),
                Piece::Note(piece) => ("note  ", piece),
                Piece::Status(piece) => ("status", piece),
                Piece::Wait(piece) => ("wait  ", piece),
            };
            text.push_str(&format!("{kind} {piece:?}\n"));
        }
    }
    text
}

fn end(outcome: &str, answer: &str) -> Value {
    json!({"type": "end", "report": {
        "session": "chat-1", "outcome": outcome, "answer": answer,
        "label": {"class": "private", "untrusted": false}, "calls": [],
        "usage": {"model_calls": 2, "prompt_tokens": 300, "completion_tokens": 20, "cache_n": 250},
        "cost_usd": "0.000000"
    }})
}

fn a_turn() -> Vec<Value> {
    vec![
        json!({"type": "waiting", "reason": {"for": "slot", "ahead": 2}}),
        json!({"type": "started", "session": "chat-1", "turn": 1, "backend": "local"}),
        json!({"type": "prefill", "progress": {"total": 300, "processed": 64}}),
        json!({"type": "reasoning", "text": "hm\u{1b}[2J"}),
        json!({"type": "delta", "text": "Let me look.\n\nNow"}),
        json!({"type": "retract"}),
        json!({"type": "tool_call", "call": 1, "tool": "read_file", "arguments": "{\"path\":\"a\u{1b}[31m\"}"}),
        json!({"type": "tool_result", "call": 1, "tool": "read_file", "outcome": "ok", "preview": "line\nline"}),
        json!({"type": "tool_call", "call": 2, "tool": "shell", "arguments": "{}"}),
        json!({"type": "tool_result", "call": 2, "tool": "shell", "outcome": "denied", "code": "no-grant", "preview": ""}),
        json!({"type": "label", "label": {"class": "private", "untrusted": true}}),
        json!({"type": "delta", "text": "# It is\n\n"}),
        json!({"type": "delta", "text": "**done**\u{1b}]0;x\u{7}"}),
        end("completed", "# It is\n\n**done**\u{1b}]0;x\u{7}"),
    ]
}

#[test]
fn a_turn_on_a_terminal() {
    insta::assert_snapshot!(show(true, &a_turn()), @r#"
    wait   "waiting for a slot: 2 ahead"
    status "local is asked …"
    status "reading: 64 of 300 tokens"
    status "thinking: hm"
    out    "Let me look.\n"
    status "writing: Now"
    note   "(the above was no answer yet)"
    note   "→ read_file {\"path\":\"a\"}"
    status "read_file runs …"
    note   "  ok line line"
    note   "→ shell {}"
    status "shell runs …"
    note   "  denied [no-grant]"
    note   "  → boxmaker grants explain shell --session chat-1"
    note   "the session is now private, untrusted"
    status "writing: # It is"
    out    "\nIt is\n"
    status "writing: **done**"
    out    "\ndone\n"
    "#);
}

#[test]
fn a_turn_into_a_pipe_is_the_bare_answer() {
    insta::assert_snapshot!(show(false, &a_turn()), @r##"
    wait   "waiting for a slot: 2 ahead"
    status "local is asked …"
    status "reading: 64 of 300 tokens"
    status "thinking: hm"
    note   "→ read_file {\"path\":\"a\"}"
    status "read_file runs …"
    note   "  ok line line"
    note   "→ shell {}"
    status "shell runs …"
    note   "  denied [no-grant]"
    note   "  → boxmaker grants explain shell --session chat-1"
    note   "the session is now private, untrusted"
    out    "# It is\n\n**done**\n"
    "##);
}

#[test]
fn an_answer_that_was_never_streamed_is_shown_once() {
    insta::assert_snapshot!(show(true, &[end("completed", "so *it* is")]), @r#"out    "so it is\n""#);
    assert_eq!(show(true, &[end("failed", "")]), "");
    assert_eq!(show(false, &[end("failed", "")]), "");
}

#[test]
fn a_helper_is_seen_at_work_and_its_helpers_too() {
    let of =
        |session: &str, event: Value| json!({"type": "child", "session": session, "event": event});
    let mut report = end("completed", "six");
    report["report"]["session"] = "sub-chat-1-1".into();
    let events = [
        json!({"type": "tool_call", "call": 1, "tool": "subagent", "arguments": "{}"}),
        of(
            "sub-chat-1-1",
            json!({"type": "started", "session": "sub-chat-1-1", "turn": 1, "backend": "local"}),
        ),
        of(
            "sub-chat-1-1",
            json!({"type": "tool_call", "call": 1, "tool": "read_file", "arguments": "{}"}),
        ),
        of(
            "sub-chat-1-1",
            of(
                "sub-sub-chat-1-1-2",
                json!({"type": "tool_call", "call": 1, "tool": "clock", "arguments": "{}"}),
            ),
        ),
        of("sub-chat-1-1", json!({"type": "delta", "text": "six"})),
        of("sub-chat-1-1", report),
    ];
    insta::assert_snapshot!(show(true, &events), @r#"
    note   "→ subagent {}"
    status "subagent runs …"
    note   "  ⤷ sub-chat-1-1 begins"
    note   "    → read_file {}"
    status "read_file runs …"
    note   "        → clock {}"
    status "clock runs …"
    status "sub-chat-1-1 works …"
    note   "  ⤷ sub-chat-1-1 · completed · private · 2 model calls, 300 tokens read (250 cached), 20 written"
    "#);
}

#[test]
fn every_wait_has_its_words() {
    let reasons = [
        json!({"for": "session"}),
        json!({"for": "loading"}),
        json!({"for": "draining"}),
        json!({"for": "retry-after", "ms": 2000}),
        json!({"for": "again"}),
    ];
    let mut events: Vec<Value> = reasons
        .iter()
        .map(|reason| json!({"type": "waiting", "reason": reason}))
        .collect();
    let awaiting = json!({"approval": "0a1b2c3d", "expires": "2026-12-01T11:00:00Z"});
    events.push(json!({"type": "approval", "call": 1, "tool": "shell", "awaiting": awaiting}));
    insta::assert_snapshot!(show(true, &events), @r#"
    wait   "waiting: another turn holds the session"
    wait   "waiting: the server loads its model"
    wait   "waiting: the server still ends a request that was stopped"
    wait   "waiting: the server asked for a pause of 2 s"
    wait   "the way to the model broke off in the middle: the answer starts again"
    wait   "waiting for your approval until 11:00 UTC: `boxmaker approve 0a1b2c3d` or `boxmaker deny 0a1b2c3d`"
    "#);
}

#[test]
fn the_summary_has_label_and_cost() {
    let TurnEvent::End { report } = serde_json::from_value(end("completed", "x")).unwrap() else {
        panic!("not an end");
    };
    insta::assert_snapshot!(summary(&report), @"chat-1 · completed · private · 2 model calls, 300 tokens read (250 cached), 20 written");
    let mut report = report;
    report.cost_usd = "0.001500".into();
    report.usage.prompt_tokens += 2_603;
    report.usage.assumed_tokens = 2_603;
    insta::assert_snapshot!(summary(&report), @"chat-1 · completed · private · 2 model calls, 300 tokens read (250 cached), 20 written, 2603 more charged for what broke off, the most it can have used · $0.001500");
}
