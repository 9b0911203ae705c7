//! The text by which the owner decides: everything that would run, and nothing hidden in it.

use super::binding::Binding;
use crate::ledger::{Spot, WHOLE};
use bxcore::text::reveal;
use serde_json::Value;

/// The longest text that is shown, in bytes. What is longer nobody reads to its end, so it can't
/// be approved.
pub const MAX_SHOWN_BYTES: usize = 16 * 1024;

/// The widest line of a value, in columns: with the names beside it, it fits a terminal of 80, so
/// that no value can reach the start of a line and pass for a name.
const MAX_VALUE_COLUMNS: usize = 62;
/// The width of the names, in columns.
const NAME_COLUMNS: usize = 16;

/// Shows a call; none if it is too long to be shown in full.
///
/// `arguments` is what the binding's bytes say.
pub fn render(binding: &Binding, arguments: &Value) -> Option<String> {
    let mut rows = Rows::default();
    rows.put("tool", binding.tool.as_str());
    match arguments {
        Value::Object(members) => {
            for (name, value) in members {
                if name.len() > MAX_SHOWN_BYTES {
                    return None;
                }
                let shown = format!("  {}", one_line(&reveal(name)));
                let mut row = shown.as_str();
                // A name that has no room beside its value stands before it, wrapped like one.
                if shown.chars().count() >= NAME_COLUMNS || !shown.is_ascii() {
                    rows.put("  name", name);
                    row = "  value";
                }
                match value {
                    Value::String(text) => rows.put(row, text),
                    other => rows.put(row, &other.to_string()),
                }
            }
        }
        other => rows.put("  arguments", &other.to_string()),
    }
    let Binding { session, call, .. } = binding;
    rows.put("session", &format!("{session}, call {call}"));
    rows.put("label", &binding.label.to_string());
    for spot in &binding.writes {
        rows.put("may write", &place(spot));
    }
    for spot in &binding.reads {
        rows.put("may read", &place(spot));
    }
    if let Some(host) = &binding.destination {
        rows.put("goes to", host);
    }
    if let Some(body) = &binding.body {
        rows.put("sends", body);
    }
    let grant = binding.grant.map(|number| format!(" (grant {number})"));
    rows.put(
        "because",
        &format!("{}{}", binding.rule, grant.unwrap_or_default()),
    );
    (rows.text.len() <= MAX_SHOWN_BYTES).then_some(rows.text)
}

#[derive(Default)]
struct Rows {
    text: String,
}

impl Rows {
    /// Adds a name and its value. Lines of a value are marked, and so are those that only go on.
    fn put(&mut self, name: &str, value: &str) {
        // Far past the bound nothing needs to be rendered any more.
        if self.text.len() > MAX_SHOWN_BYTES || value.len() > MAX_SHOWN_BYTES {
            self.text.push_str(value);
            return;
        }
        let shown = reveal(value);
        let mut name = name;
        for line in shown.split('\n') {
            let mut mark = '│';
            for piece in wrapped(line) {
                let pad = NAME_COLUMNS.saturating_sub(name.chars().count()).max(1);
                let pad = " ".repeat(pad);
                self.text.push_str(&format!("{name}{pad}{mark} {piece}\n"));
                (name, mark) = ("", '┆');
            }
        }
    }
}

/// A line in pieces that fit; at least one.
fn wrapped(line: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let (mut start, mut columns) = (0, 0);
    for (at, c) in line.char_indices() {
        // Everything beyond ASCII may be two columns wide.
        let width = if c.is_ascii() { 1 } else { 2 };
        if columns + width > MAX_VALUE_COLUMNS {
            pieces.push(&line[start..at]);
            (start, columns) = (at, 0);
        }
        columns += width;
    }
    pieces.push(&line[start..]);
    pieces
}

fn one_line(name: &str) -> String {
    name.replace('\n', "\u{27e8}U+000A\u{27e9}")
}

fn place(spot: &Spot) -> String {
    match (spot.root.split_once(':'), spot.path.as_str()) {
        (Some(("session", _)), WHOLE) => "the session's own folder".to_owned(),
        (Some((_, root)), WHOLE) => root.to_owned(),
        (Some((_, root)), path) => format!("{root}/{path}"),
        (None, path) => format!("{}/{path}", spot.root),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bxcore::id::{CallId, SessionId};
    use bxcore::label::Label;
    use bxcore::tool::ToolName;
    use serde_json::json;

    fn binding(tool: &str) -> Binding {
        Binding {
            tool: ToolName::new(tool).unwrap(),
            trusted: None,
            arguments: String::new(),
            body: None,
            reads: Vec::new(),
            writes: Vec::new(),
            session: SessionId::new("chat-1").unwrap(),
            call: CallId(3),
            label: Label::OWNER,
            destination: None,
            grant: Some(2),
            rule: "the grant asks the owner each time".to_owned(),
        }
    }

    #[test]
    fn a_command_is_shown_as_it_will_run() {
        let mut binding = binding("shell");
        binding.writes = vec![Spot {
            root: "session:chat-1".into(),
            path: ".".into(),
            below: true,
        }];
        binding.reads = vec![Spot {
            root: "owner:/home/me/notes".into(),
            path: "a.txt".into(),
            below: false,
        }];
        let command = format!("cat a\u{202e}\n  | wc -l # {}", "x".repeat(70));
        let arguments = json!({"command": command, "timeout_secs": 5});
        insta::assert_snapshot!(render(&binding, &arguments).unwrap(), @r#"
        tool            │ shell
          command       │ cat a⟨U+202E⟩
                        │   | wc -l # xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
                        ┆ xxxxxxxxxxxxxxxxxxxx
          timeout_secs  │ 5
        session         │ chat-1, call 3
        label           │ private
        may write       │ the session's own folder
        may read        │ /home/me/notes/a.txt
        because         │ the grant asks the owner each time (grant 2)
        "#);
    }

    #[test]
    fn what_leaves_is_shown_with_where_it_goes() {
        let mut binding = binding("consult");
        binding.destination = Some("api.example.org".into());
        binding.body = Some(r#"{"model":"m"}"#.into());
        let shown = render(&binding, &json!({"question": "why?"})).unwrap();
        assert!(shown.contains("goes to         │ api.example.org\n"));
        assert!(shown.contains("sends           │ {\"model\":\"m\"}\n"));
    }

    #[test]
    fn no_value_can_pass_for_a_row_of_ours() {
        let forged = format!("ok\nlabel           │ public\n{}label", " ".repeat(67));
        let shown = render(&binding("shell"), &json!({ "command": forged })).unwrap();
        let names: Vec<&str> = shown
            .lines()
            .filter_map(|line| line.get(..NAME_COLUMNS))
            .filter(|name| !name.trim().is_empty())
            .collect();
        let expect = ["tool", "  command", "session", "label", "because"];
        let names: Vec<&str> = names.iter().map(|name| name.trim_end()).collect();
        assert_eq!(names, expect);
        assert!(shown.lines().all(|line| line.chars().count() <= 80));
    }

    #[test]
    fn a_long_name_is_no_place_to_hide_in() {
        let name = format!("{}label           │ public", " ".repeat(80));
        let shown = render(&binding("shell"), &json!({ name: "x" })).unwrap();
        assert!(
            shown.lines().all(|line| line.chars().count() <= 80),
            "{shown}"
        );
        assert!(shown.contains("  name          │ "), "{shown}");
        assert!(!shown.contains("\nlabel           │ public"), "{shown}");
    }

    #[test]
    fn what_is_too_long_to_be_read_is_not_shown_at_all() {
        let long = "x".repeat(MAX_SHOWN_BYTES);
        assert!(render(&binding("shell"), &json!({ "command": long })).is_none());
        let many: Vec<String> = (0..MAX_SHOWN_BYTES).map(|n| n.to_string()).collect();
        assert!(render(&binding("shell"), &json!({ "many": many })).is_none());
    }
}
