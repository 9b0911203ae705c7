use super::*;
use bxcore::label::Class;

const UNTRUSTED: Label = Label::new(Class::Private, true);

fn line(kind: &str, rest: &str) -> String {
    format!(r#"{{"v":1,"n":1,"ts":"2026-12-01T08:00:00Z","kind":"{kind}",{rest}}}"#)
}

fn label(label: Label) -> String {
    format!(r#""label":{}"#, serde_json::to_string(&label).unwrap())
}

fn user(text: &str, of: Label) -> String {
    let message = RawMessage::user(text);
    line(
        "user",
        &format!(r#""turn":1,{},"message":{}"#, label(of), message.json()),
    )
}

fn answer(text: &str) -> String {
    let message = RawMessage::assistant(text, &[]);
    let receipt = r#""receipt":{"slot":null,"prompt_tokens":1,"completion_tokens":1,"cache_n":null,"prompt_n":null,"queue_ms":0,"prefill_ms":0,"decode_ms":0,"source":"reported","taken_over":false}"#;
    line(
        "assistant",
        &format!(
            r#""turn":1,"model_call":1,"message":{},{receipt},"cost":0"#,
            message.json()
        ),
    )
}

fn tool(name: &str, text: &str, of: Label) -> String {
    let framed = bxcore::text::frame(name, of, text);
    let message = RawMessage::tool("call00001", &framed);
    line(
        "tool",
        &format!(
            r#""turn":1,"call":1,"tool":"{name}","outcome":"ok",{},"raw_bytes":1,"message":{}"#,
            label(of),
            message.json()
        ),
    )
}

fn end(of: Label) -> String {
    line(
        "turn_end",
        &format!(
            r#""turn":1,"outcome":"completed",{},"usage":{{"model_calls":0,"prompt_tokens":0,"completion_tokens":0,"cache_n":0}},"cost":0"#,
            label(of)
        ),
    )
}

fn heard(lines: &[String]) -> Vec<(String, Label, String)> {
    let mut listener = Listener::default();
    for line in lines {
        if let Err(error) = parse_line(line) {
            assert!(line.contains("nonsense"), "{error}: {line}");
        }
    }
    let turns = lines.iter().filter_map(|line| listener.line(line));
    turns
        .flat_map(|(passages, _)| passages)
        .map(|passage| (passage.who, passage.label, passage.text))
        .collect()
}

#[test]
fn each_passage_has_the_label_of_what_it_was_made_from() {
    let lines = [
        user("before", Label::OWNER),
        answer("plain"),
        end(Label::OWNER),
        user("after", Label::OWNER),
        tool("http_fetch", "a page", UNTRUSTED),
        tool("recall", "found again", UNTRUSTED),
        answer("about the page"),
        end(UNTRUSTED),
    ];
    let expect = [
        ("owner", Label::OWNER, "before"),
        ("assistant", Label::OWNER, "plain"),
        ("owner", Label::OWNER, "after"),
        ("http_fetch", UNTRUSTED, "a page"),
        ("assistant", UNTRUSTED, "about the page"),
    ];
    let expect = expect.map(|(who, label, text)| (who.to_owned(), label, text.to_owned()));
    assert_eq!(heard(&lines), expect);
}

#[test]
fn an_answer_carries_what_its_turn_ended_with() {
    let lines = [
        user("q", Label::BOTTOM),
        answer("a"),
        end(Label::new(Class::Public, true)),
    ];
    assert_eq!(heard(&lines)[1].1, Label::new(Class::Public, true));
    assert!(heard(&lines[..2]).is_empty(), "the turn has not ended");
}

#[test]
fn what_stands_behind_an_unreadable_line_counts_as_the_worst() {
    let lines = [
        user("q", Label::OWNER),
        "nonsense".to_owned(),
        tool("read_file", "x", Label::OWNER),
        answer("a"),
        end(Label::OWNER),
    ];
    let labels: Vec<Label> = heard(&lines)
        .into_iter()
        .map(|(_, label, _)| label)
        .collect();
    assert_eq!(labels, [Label::OWNER, Label::TOP, Label::TOP]);
}

#[test]
fn in_schema_mode_the_answer_is_within_the_reply() {
    for (reply, expect) in [
        (r#"{"answer":"Paris"}"#, "Paris"),
        (r#"{"clock":{}}"#, ""),
        ("Paris", "Paris"),
    ] {
        assert_eq!(answered(ToolMode::Schema, reply), expect);
        assert_eq!(answered(ToolMode::Native, reply), reply);
    }
}
