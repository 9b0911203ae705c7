//! Showing a record with its body to the owner. That it was shown goes on record itself.

use super::handle::Broker;
use super::job::{Note, OwnedRecord};
use crate::audit::{Decided, Ended, Raw};
use bxcore::audit::{Kind, sha256_hex};
use bxcore::code::Code;
use bxcore::problem::Problem;
use bxkit::audit_reader::{self, Found};
use serde_json::{Value, json};
use std::path::Path;

/// The name under which reading a record is recorded.
const READING: &str = "audit:show";

impl Broker {
    /// A record, an intent joined with its outcome, exact bytes included.
    pub async fn show(&self, seq: u64) -> Result<Value, Problem> {
        let intent = self.write_note(reading(seq)).await?;
        let folder = self.audit_folder();
        let shown = tokio::task::spawn_blocking(move || read(&folder, seq)).await;
        let shown = shown.unwrap_or_else(|_| {
            Err(Problem::new(
                Code::Internal,
                "Reading the audit log broke off",
            ))
        });
        self.write_note(was_read(intent, &shown)).await?;
        shown
    }
}

fn reading(seq: u64) -> Note {
    let record = OwnedRecord {
        tool: Some(READING.to_owned()),
        decision: Some(Decided::Allow),
        body: Some(json!({ "seq": seq }).to_string().into()),
        ..OwnedRecord::default()
    };
    Note {
        kind: Kind::Intent,
        record,
    }
}

fn was_read(intent: u64, shown: &Result<Value, Problem>) -> Note {
    let mut record = OwnedRecord {
        intent: Some(intent),
        tool: Some(READING.to_owned()),
        ..OwnedRecord::default()
    };
    match shown {
        Ok(value) => {
            let text = value.to_string();
            record.outcome = Some(Ended::Ok);
            // The bytes are on record where they were shown from.
            record.raw = Some(Raw {
                bytes: text.len() as u64,
                sha256: sha256_hex(text.as_bytes()),
            });
        }
        Err(problem) => {
            record.outcome = Some(Ended::Failed);
            record.reason = Some(problem.code);
        }
    }
    Note {
        kind: Kind::Outcome,
        record,
    }
}

fn read(folder: &Path, seq: u64) -> Result<Value, Problem> {
    let Some(Found { record, outcome }) = audit_reader::find(folder, seq)? else {
        return Err(Problem::new(
            Code::NotFound,
            format!("The audit log has no record {seq}"),
        ));
    };
    let mut shown = whole(folder, &record)?;
    if let Value::Object(members) = &mut shown {
        let outcome = outcome.map(|line| whole(folder, &line)).transpose()?;
        members.insert("outcome".to_owned(), outcome.unwrap_or(Value::Null));
    }
    Ok(shown)
}

/// A record with its body, from wherever that is.
fn whole(folder: &Path, line: &str) -> Result<Value, Problem> {
    let mut record: Value = serde_json::from_str(line).map_err(|error| {
        Problem::new(Code::AuditChainBroken, "A record can't be read").detail(error.to_string())
    })?;
    let sha256 = record["body_sha256"].as_str().map(str::to_owned);
    if let (Value::Null, Some(sha256)) = (&record["body"], sha256) {
        let body = audit_reader::payload(folder, &sha256)?;
        record["body"] = Value::String(body);
    }
    Ok(record)
}
