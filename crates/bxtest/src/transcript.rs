//! Transcripts as loopd writes them, for whoever reads them.

use serde_json::{Value, json};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Writes the transcript of one session, turn by turn.
#[derive(Debug)]
pub struct Transcript {
    path: PathBuf,
    session: String,
    lines: u64,
    turns: u64,
}

/// A label as it is written.
pub fn label(class: &str, untrusted: bool) -> Value {
    json!({"class": class, "untrusted": untrusted})
}

impl Transcript {
    /// Begins the transcript of a session below this folder.
    pub fn begin(sessions: &Path, session: &str) -> Self {
        let folder = sessions.join(session);
        fs::create_dir_all(&folder).unwrap();
        let mut transcript = Self {
            path: folder.join("log.jsonl"),
            session: session.to_owned(),
            lines: 0,
            turns: 0,
        };
        let session = transcript.session.clone();
        let open = transcript.line(
            "2026-01-01T00:00:00Z",
            "open",
            &json!({"session": session, "label": label("public", false)}),
        );
        transcript.append(&open);
        transcript
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a turn of the owner's: a question, what a tool gave, an answer.
    pub fn turn(
        &mut self,
        time: &str,
        question: &str,
        tool: Option<(&str, &str, &Value)>,
        answer: &str,
    ) {
        let lines = self.turn_lines(time, question, tool, answer);
        self.append(&lines);
    }

    /// The lines of a turn that is not written yet.
    pub fn turn_lines(
        &mut self,
        time: &str,
        question: &str,
        tool: Option<(&str, &str, &Value)>,
        answer: &str,
    ) -> String {
        self.turns += 1;
        let turn = self.turns;
        let owner = label("private", false);
        let message = json!({"role": "user", "content": question});
        let mut lines = self.line(
            time,
            "user",
            &json!({"turn": turn, "label": owner, "message": message}),
        );
        let mut read = owner;
        if let Some((name, text, label)) = tool {
            let framed = format!(
                "<tool-result tool=\"{name}\" class=\"x\" trust=\"x\">\n{text}\n</tool-result>"
            );
            let message = json!({"role": "tool", "content": framed, "tool_call_id": "call00001"});
            lines += &self.line(
                time,
                "tool",
                &json!({
                    "turn": turn, "call": turn, "tool": name, "outcome": "ok", "label": label,
                    "raw_bytes": text.len(), "message": message,
                }),
            );
            read = label.clone();
        }
        let message = json!({"role": "assistant", "content": answer});
        let receipt = json!({
            "slot": 0, "prompt_tokens": 10, "completion_tokens": 5, "cache_n": null, "prompt_n": null,
            "queue_ms": 0, "prefill_ms": 0, "decode_ms": 0, "source": "reported", "taken_over": false,
        });
        lines += &self.line(
            time,
            "assistant",
            &json!({
                "turn": turn, "model_call": turn, "message": message, "receipt": receipt, "cost": 0,
            }),
        );
        let usage =
            json!({"model_calls": 1, "prompt_tokens": 10, "completion_tokens": 5, "cache_n": 0});
        lines += &self.line(
            time,
            "turn_end",
            &json!({
                "turn": turn, "outcome": "completed", "label": read, "usage": usage, "cost": 0,
            }),
        );
        lines
    }

    /// Writes bytes at the end, whatever they are.
    pub fn append(&self, text: &str) {
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.path)
            .unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    fn line(&mut self, time: &str, kind: &str, members: &Value) -> String {
        self.lines += 1;
        let mut line = json!({"v": 1, "n": self.lines, "ts": time, "kind": kind});
        if let (Some(line), Some(members)) = (line.as_object_mut(), members.as_object()) {
            line.extend(members.clone());
        }
        format!("{line}\n")
    }
}
