//! `session verify`: whether a helper's transcript is what its parent was told of, and whether the audit
//! log has the calls that it tells of. Needs nothing but the files.

use crate::context::Context;
use crate::failure::{Failure, Outcome, file_problem};
use bxcore::audit::sha256_hex;
use bxcore::code::Code;
use bxcore::delegation::Receipt;
use bxcore::id::SessionId;
use bxcore::problem::Problem;
use bxcore::transcript::{Entry, Line, Lineage, TurnEnd, parse_line};
use bxkit::audit_reader::{Expected, find, last_checkpoint, verify};
use bxkit::fsx::read_regular;
use bxkit::home::Home;
use serde_json::{Value, json};

/// The largest transcript that is read, in bytes.
const MAX_LOG_BYTES: u64 = 256 * 1024 * 1024;

/// What is in a transcript that belongs to a helper.
struct Child {
    parent: SessionId,
    lineage: Lineage,
    end: TurnEnd,
    lines: Vec<Line>,
    sha256: String,
}

pub(super) fn run(context: &Context<'_>, id: &SessionId) -> Outcome {
    let home = context.home;
    let child = read_child(home, id)?;
    let receipt = Receipt {
        child: id,
        outcome: child.end.outcome,
        label: child.end.label,
        usage: child.end.usage,
        cost: child.end.cost,
        log_sha256: Some(&child.sha256),
    };
    check_receipt(home, &child, &receipt.to_string())?;
    let calls = check_calls(home, id, &child.lines)?;
    let Child {
        parent, lineage, ..
    } = &child;
    if context.output.json {
        let value = json!({
            "session": id, "parent": parent, "call": lineage.call, "lines": child.lines.len(),
            "log_sha256": child.sha256, "calls_on_record": calls, "receipt": receipt.to_string(),
        });
        context.output.answer_json(&value)?;
    } else {
        let (lines, call) = (child.lines.len(), lineage.call);
        context.output.answer(&format!(
            "{id} holds: {lines} lines as call {call} of {parent} was told, {calls} calls on record\n{receipt}\n"
        ))?;
    }
    Ok(())
}

/// Reads a transcript line by line; each must be sound and have its number.
fn read(home: &Home, id: &SessionId) -> Result<(Vec<Line>, Vec<u8>), Failure> {
    let path = home.sessions_dir().join(id.as_str()).join("log.jsonl");
    let bytes = read_regular(&path, MAX_LOG_BYTES).map_err(|error| {
        let title = format!("The transcript of `{id}` can't be read");
        file_problem(Code::TranscriptBroken, &title, &path, &error)
    })?;
    let text = String::from_utf8_lossy(&bytes);
    let mut lines = Vec::new();
    for (index, text) in text.lines().enumerate() {
        let line = parse_line(text).map_err(|error| differs(id, &error.to_string()))?;
        if line.n != index as u64 + 1 {
            return Err(differs(
                id,
                &format!("line {} has the number {}", index + 1, line.n),
            ));
        }
        lines.push(line);
    }
    Ok((lines, bytes))
}

fn read_child(home: &Home, id: &SessionId) -> Result<Child, Failure> {
    let (lines, bytes) = read(home, id)?;
    let made_by = lines.first().and_then(|line| match &line.entry {
        Entry::Open(open) if open.session == *id => open.parent.clone().zip(open.lineage.clone()),
        _ => None,
    });
    let Some((parent, lineage)) = made_by else {
        let title = format!("`{id}` is no helper's session");
        return Err(Problem::new(Code::BadUsage, title)
            .hint("`boxmaker sessions --all` lists those of helpers: `sub-…`")
            .into());
    };
    let Some(Entry::TurnEnd(end)) = lines.last().map(|line| line.entry.clone()) else {
        return Err(differs(
            id,
            "it has no end: the helper is at work, or was cut off",
        ));
    };
    Ok(Child {
        parent,
        lineage,
        end,
        lines,
        sha256: sha256_hex(&bytes),
    })
}

/// Whether the parent was told just that.
fn check_receipt(home: &Home, child: &Child, receipt: &str) -> Result<(), Failure> {
    let Child {
        parent, lineage, ..
    } = child;
    let (lines, _) = read(home, parent)?;
    let told = lines.iter().find_map(|line| match &line.entry {
        Entry::Tool(tool) if tool.turn == lineage.parent_turn && tool.call == lineage.call => {
            Some(&tool.message)
        }
        _ => None,
    });
    let Some(told) = told else {
        let why = format!("it has no result for call {}", lineage.call);
        return Err(differs(parent, &why));
    };
    let told: Value = serde_json::from_str(told.json()).unwrap_or_default();
    let told = told["content"].as_str().unwrap_or_default();
    if told.contains(receipt) {
        return Ok(());
    }
    let said = told
        .lines()
        .find(|line| line.starts_with('['))
        .unwrap_or("nothing");
    Err(Problem::new(
        Code::TranscriptBroken,
        "The helper's transcript is not the one that its parent was told of",
    )
    .detail(format!("told: {said}\nfound: {receipt}"))
    .hint("the parent's transcript or the helper's was changed afterwards; a backup has the older ones")
    .into())
}

/// Whether each call that a transcript tells of is on record; gives how many. The log itself must hold.
fn check_calls(home: &Home, id: &SessionId, lines: &[Line]) -> Result<u64, Failure> {
    let folder = home.audit_dir();
    let signed = last_checkpoint(&folder).ok().flatten();
    let expected = signed.as_ref().map(Expected::from);
    verify(&folder, expected.as_ref()).map_err(|fault| fault.problem())?;
    let mut calls = 0;
    for line in lines {
        let Entry::Tool(tool) = &line.entry else {
            continue;
        };
        let Some(seq) = tool.audit else { continue };
        let found = find(&folder, seq).map_err(|fault| fault.problem())?;
        let record = found.map(|found| found.record).unwrap_or_default();
        let record: Value = serde_json::from_str(&record).unwrap_or_default();
        let is_this = record["session"] == id.as_str()
            && record["call"] == tool.call.0
            && record["tool"] == tool.tool.as_str();
        if !is_this {
            let why = format!("call {} names record {seq}, which is not of it", tool.call);
            return Err(differs(id, &why));
        }
        calls += 1;
    }
    Ok(calls)
}

fn differs(id: &SessionId, why: &str) -> Failure {
    Problem::new(
        Code::TranscriptBroken,
        format!("The transcript of `{id}` does not hold"),
    )
    .detail(why.to_owned())
    .into()
}
