//! `session log`: a transcript for a person; with `--json` as it is.

use super::export::transcript;
use crate::connection::Connection;
use crate::context::Context;
use crate::failure::Outcome;
use crate::output::{Paint, Style, one_line, sanitize};
use crate::turn::{cost, used, words_of};
use bxcore::id::SessionId;
use bxcore::text::unframed;
use bxcore::transcript::{Assistant, Compacted, Entry, Epoch, Line, Tool, parse_line};
use serde_json::Value;

/// The largest transcript that is shown, in bytes; a longer one can be exported.
const MAX_LOG_BYTES: usize = 256 * 1024 * 1024;

/// The longest line about a tool's result, in characters.
const MAX_RESULT_CHARS: usize = 240;

pub(super) async fn run(context: &Context<'_>, connection: &Connection, id: &SessionId) -> Outcome {
    let log = transcript(connection, id).await?;
    let bytes = log.body.collect(MAX_LOG_BYTES).await?;
    if context.output.json {
        context.output.answer_bytes(&bytes)?;
        return Ok(());
    }
    let text = String::from_utf8_lossy(&bytes);
    for line in text.lines() {
        context
            .output
            .answer(&render(line, context.output.paint_out))?;
    }
    Ok(())
}

/// One line of the transcript for a person.
fn render(line: &str, paint: Paint) -> String {
    let Line { n, ts, entry, .. } = match parse_line(line) {
        Ok(line) => line,
        Err(error) => {
            return format!(
                "{} {}\n",
                paint.paint(Style::Bad, "?"),
                one_line(&error.to_string(), MAX_RESULT_CHARS)
            );
        }
    };
    let stamp = paint.paint(Style::Dim, &format!("{n:>4} {ts}"));
    match entry {
        Entry::Open(open) => format!("{stamp} session {} begins, {}\n", open.session, open.label),
        Entry::Epoch(epoch) => {
            let summary = epoch.compacted.as_ref().map(summary).unwrap_or_default();
            format!("{stamp} {}\n{summary}", epoch_line(&epoch))
        }
        Entry::User(user) => {
            let head = paint.paint(Style::Strong, &format!("you ({})", user.label));
            format!("{stamp} {head}\n{}", indented(&sanitize(&user.words())))
        }
        Entry::Assistant(answer) => format!("{stamp} {}", assistant(&answer, paint)),
        Entry::Tool(tool) => format!("{stamp} {}\n", tool_line(&tool)),
        Entry::TurnEnd(end) => {
            let why = end
                .code
                .map(|code| format!(" [{code}]"))
                .unwrap_or_default();
            let detail = end
                .detail
                .map(|detail| format!(": {}", one_line(&detail, MAX_RESULT_CHARS)));
            format!(
                "{stamp} turn {} {}{why}{} · {} · {}{}\n",
                end.turn.0,
                end.outcome.name(),
                detail.unwrap_or_default(),
                end.label,
                used(&end.usage),
                cost(&end.cost.to_string())
            )
        }
    }
}

fn epoch_line(epoch: &Epoch) -> String {
    let model = one_line(&epoch.model, MAX_RESULT_CHARS);
    let reason = serde_json::to_value(epoch.reason).unwrap_or_default();
    let mode = serde_json::to_value(epoch.mode).unwrap_or_default();
    let word = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    format!(
        "epoch {} ({}): {model} on {}, {} tool calls",
        epoch.epoch.0,
        word(&reason),
        epoch.backend,
        word(&mode)
    )
}

/// The summary that an epoch begins with, as the model reads it.
fn summary(compacted: &Compacted) -> String {
    let first = compacted.messages.first();
    let text = first.map(|message| content(message.json()));
    let head = format!(
        "summed up (call {}, {}); the last {} messages stay",
        compacted.model_call, compacted.label, compacted.kept
    );
    indented(&sanitize(&format!("{head}\n{}", text.unwrap_or_default())))
}

fn assistant(answer: &Assistant, paint: Paint) -> String {
    let mut text = paint.paint(
        Style::Strong,
        &format!("model (call {})", answer.model_call.0),
    );
    text.push('\n');
    if !answer.reasoning.is_empty() {
        let thought = format!("thought: {}", one_line(&answer.reasoning, MAX_RESULT_CHARS));
        text.push_str(&indented(&paint.paint(Style::Dim, &thought)));
    }
    // Of a call the line below is shown.
    let said = words_of(answer);
    if !said.trim().is_empty() {
        text.push_str(&indented(&sanitize(&said)));
    }
    for call in &answer.calls {
        let line = format!(
            "→ {} {} {}",
            call.call.0, call.written.name, call.written.arguments
        );
        text.push_str(&indented(&one_line(&line, MAX_RESULT_CHARS)));
    }
    text
}

fn tool_line(tool: &Tool) -> String {
    let outcome = serde_json::to_value(tool.outcome).unwrap_or_default();
    let code = tool
        .code
        .map(|code| format!(" [{code}]"))
        .unwrap_or_default();
    let audit = tool
        .audit
        .map(|seq| format!(", audit {seq}"))
        .unwrap_or_default();
    format!(
        "{} (call {}) {}{code}, {}, {} bytes{audit}: {}",
        tool.tool,
        tool.call.0,
        outcome.as_str().unwrap_or("?"),
        tool.label,
        tool.raw_bytes,
        one_line(unframed(&content(tool.message.json())), MAX_RESULT_CHARS)
    )
}

/// The text of a message as it went over the wire.
fn content(message: &str) -> String {
    let message: Value = serde_json::from_str(message).unwrap_or_default();
    message
        .get("content")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

/// A text that is safe already, set in.
fn indented(text: &str) -> String {
    text.lines()
        .fold(String::new(), |all, line| format!("{all}     {line}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_entry_is_shown() {
        let lines = [
            r#"{"v":1,"n":1,"ts":"T","kind":"open","session":"chat-1","label":{"class":"private","untrusted":false}}"#,
            r#"{"v":1,"n":2,"ts":"T","kind":"epoch","epoch":1,"reason":"start","backend":"local","fingerprint":"f","model":"m","mode":"schema","system":{"role":"system","content":"s"},"fixed":{},"context_tokens":null}"#,
            r#"{"v":1,"n":3,"ts":"T","kind":"user","turn":1,"label":{"class":"private","untrusted":false},"message":{"role":"user","content":"hi\u001b[2J\nthere"}}"#,
            r#"{"v":1,"n":4,"ts":"T","kind":"assistant","turn":1,"model_call":1,"message":{"role":"assistant","content":"{\"tool\":\"clock\"}"},"reasoning":"hm","calls":[{"call":1,"id":"call-1","name":"clock","arguments":"{}"}],"rung":"schema","receipt":{"slot":0,"prompt_tokens":3,"completion_tokens":4,"cache_n":null,"prompt_n":null,"queue_ms":0,"prefill_ms":0,"decode_ms":0,"source":"reported"},"cost":0}"#,
            r#"{"v":1,"n":5,"ts":"T","kind":"tool","turn":1,"call":1,"tool":"clock","outcome":"denied","code":"no-grant","label":{"class":"private","untrusted":false},"raw_bytes":5,"message":{"role":"user","content":"<tool-result tool=\"clock\" class=\"private\" trust=\"trusted\">\nit is\n\u001bnoon\n</tool-result>\nAnswer the user now."},"audit":7}"#,
            r#"{"v":1,"n":6,"ts":"T","kind":"turn_end","turn":1,"outcome":"failed","code":"empty-answer","detail":"nothing","label":{"class":"private","untrusted":true},"usage":{"model_calls":1,"prompt_tokens":3,"completion_tokens":4,"cache_n":0},"cost":0}"#,
            r#"{"v":9,"n":7}"#,
            "rubbish",
        ];
        let shown: String = lines
            .iter()
            .map(|line| render(line, Paint::Plain))
            .collect();
        insta::assert_snapshot!(shown, @"
           1 T session chat-1 begins, private
           2 T epoch 1 (start): m on local, schema tool calls
           3 T you (private)
             hi
             there
           4 T model (call 1)
             thought: hm
             → 1 clock {}
           5 T clock (call 1) denied [no-grant], private, 5 bytes, audit 7: it is oon
           6 T turn 1 failed [empty-answer]: nothing · private, untrusted · 1 model call, 3 tokens read (0 cached), 4 written
        ? written in version 9 of the format; this Boxmaker reads up to 1
        ? not a transcript entry: expected value at line 1 column 1
        ");
    }

    #[test]
    fn an_answer_in_schema_mode_is_shown_as_its_text() {
        let line = r#"{"v":1,"n":4,"ts":"T","kind":"assistant","turn":1,"model_call":1,"message":{"role":"assistant","content":"{\"answer\":\"so\"}"},"rung":"schema","receipt":{"slot":0,"prompt_tokens":3,"completion_tokens":4,"cache_n":null,"prompt_n":null,"queue_ms":0,"prefill_ms":0,"decode_ms":0,"source":"reported"},"cost":0}"#;
        insta::assert_snapshot!(render(line, Paint::Plain), @"
        4 T model (call 1)
          so
        ");
    }
}
