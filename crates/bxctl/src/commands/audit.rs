//! `audit`: the log read and verified.
//!
//! Verifying needs nothing that runs: it reads the files themselves.

use super::grants::no_record;
use crate::context::Context;
use crate::failure::Outcome;
use crate::output::{Paint, Style, sanitize};
use crate::ready::ensure_up;
use bxcore::code::Code;
use bxkit::audit_reader::{AuditFault, Expected, Verified, verify};
use bxkit::rpc::CallError;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// What to do with the log.
#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    /// Show a record, an intent together with its outcome.
    Show(ShowArgs),
    /// Check every line, hash, number, body and payload file.
    Verify(VerifyArgs),
}

/// Options of `audit show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// The record's number.
    pub seq: u64,
}

/// Options of `audit verify`.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// The folder of another log, such as a backup's.
    pub folder: Option<PathBuf>,
    /// A record that the log must have, as `SEQ:HASH`: finds a tail that was cut off.
    #[arg(long, value_name = "SEQ:HASH", value_parser = parse_expected)]
    pub head: Option<Expected>,
}

/// Reads `12:9f…`.
fn parse_expected(text: &str) -> Result<Expected, String> {
    let (seq, hash) = text.split_once(':').ok_or("it is not SEQ:HASH")?;
    let seq = seq
        .parse()
        .map_err(|_| format!("`{seq}` is not a number"))?;
    if hash.len() != 64 || !hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err("the hash is not 64 hex digits".to_owned());
    }
    Ok(Expected {
        seq,
        hash: hash.to_ascii_lowercase(),
    })
}

pub(crate) async fn run(context: &Context<'_>, command: AuditCommand) -> Outcome {
    match command {
        AuditCommand::Show(args) => show(context, args.seq).await,
        AuditCommand::Verify(args) => check(context, &args),
    }
}

async fn show(context: &Context<'_>, seq: u64) -> Outcome {
    let connection = ensure_up(context).await?;
    let record: Value = match connection.brokerd.get(&format!("/v1/audit/{seq}")).await {
        Ok(record) => record,
        Err(CallError::Refused(problem)) if problem.code == Code::NotFound => {
            return Err(no_record(seq).into());
        }
        Err(error) => return Err(error.into()),
    };
    if context.output.json {
        context.output.answer_json(&record)?;
    } else {
        context
            .output
            .answer(&render(&record, context.output.paint_out))?;
    }
    Ok(())
}

fn check(context: &Context<'_>, args: &VerifyArgs) -> Outcome {
    let folder = args
        .folder
        .clone()
        .unwrap_or_else(|| context.home.audit_dir());
    if args.folder.is_none() && args.head.is_none() && !has_log(&folder) {
        return nothing_yet(context);
    }
    let Verified { records, head } =
        verify(&folder, args.head.as_ref()).map_err(|fault| fault.problem())?;
    if context.output.json {
        let value = json!({ "records": records, "seq": head.seq, "head": head.hex() });
        context.output.answer_json(&value)?;
    } else {
        let text = format!(
            "the log holds: {records} records, head {}:{}\n",
            head.seq,
            head.hex()
        );
        context.output.answer(&text)?;
    }
    Ok(())
}

/// Whether anything was ever recorded in a home; what can't be looked at is for `verify` to tell.
fn has_log(folder: &Path) -> bool {
    match bxkit::audit_reader::segments(folder) {
        Ok(segments) => !segments.is_empty(),
        Err(AuditFault::Unreadable { source, .. }) => source.kind() != ErrorKind::NotFound,
        Err(_) => true,
    }
}

fn nothing_yet(context: &Context<'_>) -> Outcome {
    if context.output.json {
        let value = json!({ "records": 0, "seq": 0, "head": null });
        context.output.answer_json(&value)?;
    } else {
        let text = "nothing was recorded in this home yet, so there is nothing to verify\n";
        context.output.answer(text)?;
    }
    Ok(())
}

/// A record's members, one a line; what is nested is set in.
fn render(record: &Value, paint: Paint) -> String {
    let mut text = String::new();
    members(record, 0, paint, &mut text);
    text
}

/// How deep a record is set in; what is deeper stands on one line.
const MAX_DEPTH: usize = 4;

fn members(value: &Value, depth: usize, paint: Paint, text: &mut String) {
    let Value::Object(map) = value else {
        text.push_str(&sanitize(&value.to_string()));
        text.push('\n');
        return;
    };
    let margin = "  ".repeat(depth);
    for (key, value) in map {
        let key = paint.paint(Style::Dim, &sanitize(key));
        match value {
            Value::Object(inner) if !inner.is_empty() && depth < MAX_DEPTH => {
                text.push_str(&format!("{margin}{key}\n"));
                members(value, depth + 1, paint, text);
            }
            Value::String(words) => {
                let words = sanitize(words).replace('\n', &format!("\n{margin}    "));
                text.push_str(&format!("{margin}{key}: {words}\n"));
            }
            other => text.push_str(&format!(
                "{margin}{key}: {}\n",
                sanitize(&other.to_string())
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_shown_member_by_member() {
        let record = json!({
            "seq": 3, "kind": "intent", "tool": "read_file", "body": "{\"path\":\"a\"}\nx\u{1b}[2J",
            "label": {"class": "private", "untrusted": false}, "call": null,
            "outcome": {"seq": 4, "result": "ok"}
        });
        insta::assert_snapshot!(render(&record, Paint::Plain), @r#"
        seq: 3
        kind: intent
        tool: read_file
        body: {"path":"a"}
            x
        label
          class: private
          untrusted: false
        call: null
        outcome
          seq: 4
          result: ok
        "#);
    }

    #[test]
    fn a_head_is_read_as_it_is_printed() {
        let hash = "AB".repeat(32);
        let head = parse_expected(&format!("12:{hash}")).unwrap();
        assert_eq!((head.seq, head.hash), (12, hash.to_lowercase()));
        for bad in ["", "12", "x:00", "12:00", &format!("12:{}", "g".repeat(64))] {
            assert!(parse_expected(bad).is_err(), "{bad}");
        }
    }
}
