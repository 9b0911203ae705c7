//! One record, and its members in the order in which they are written.

use bxcore::audit::{AUDIT_VERSION, Kind};
use bxcore::code::Code;
use bxcore::label::Label;
use bxcore::usage::Charge;
use bxcore::wire::brokerd::Step;
use serde::Serialize;

/// What was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Decided {
    /// It may run.
    Allow,
    /// It may not.
    Deny,
}

/// How what was allowed ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Ended {
    /// With a result.
    Ok,
    /// With an error.
    Failed,
    /// In a crash, so nobody knows.
    Unknown,
}

/// A result before it was capped and neutralised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Raw {
    /// Its length in bytes.
    pub bytes: u64,
    /// Its SHA-256, as hex.
    pub sha256: String,
}

/// A record without what the writer adds: number, time, chain.
#[derive(Debug, Clone, Default)]
pub struct Record<'a> {
    /// For an outcome: the number of its intent.
    pub intent: Option<u64>,
    /// For an outcome: how it ended.
    pub outcome: Option<Ended>,
    /// The session.
    pub session: Option<&'a str>,
    /// The session's number for the call.
    pub call: Option<u64>,
    /// The session's number for the model call, where it is one.
    pub model_call: Option<u64>,
    /// The tool.
    pub tool: Option<&'a str>,
    /// The label that was judged by, or that the result carries.
    pub label: Option<Label>,
    /// The grant that was used, counted from 1.
    pub grant: Option<usize>,
    /// What was decided.
    pub decision: Option<Decided>,
    /// Why it was denied, or failed.
    pub reason: Option<Code>,
    /// Every step of the decision.
    pub walk: Option<&'a [Step]>,
    /// The exact bytes that it is about.
    pub body: Option<&'a str>,
    /// Where these are kept.
    pub body_place: BodyPlace,
    /// The SHA-256 of the call's arguments, as hex, where the body is something else.
    pub arguments_sha256: Option<&'a str>,
    /// For an outcome: what the body was before it was capped.
    pub raw: Option<Raw>,
    /// For an outcome: what it cost, where it costs money.
    pub charge: Option<Charge>,
}

/// Where a record's body is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BodyPlace {
    /// In the record, unless it is too large for that.
    #[default]
    Record,
    /// In a file of its own: whole conversations are, whatever their size.
    File,
}

/// What the writer adds to a record.
#[derive(Debug)]
pub(super) struct Stamp<'a> {
    pub(super) kind: Kind,
    pub(super) seq: u64,
    pub(super) time: &'a str,
    pub(super) boot: &'a str,
    pub(super) prev: Option<&'a str>,
    pub(super) body_sha256: Option<&'a str>,
    /// Whether the body stands in the record, rather than in a payload file.
    pub(super) is_inline: bool,
}

/// The members of a line; the hash is appended to it.
#[derive(Serialize)]
struct Line<'a> {
    v: u32,
    seq: u64,
    ts: &'a str,
    boot: &'a str,
    kind: Kind,
    #[serde(skip_serializing_if = "Option::is_none")]
    prev: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    intent: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<Ended>,
    session: Option<&'a str>,
    call: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model_call: Option<u64>,
    tool: Option<&'a str>,
    label: Option<Label>,
    grant: Option<usize>,
    decision: Option<Decided>,
    reason: Option<Code>,
    #[serde(skip_serializing_if = "Option::is_none")]
    walk: Option<&'a [Step]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments_sha256: Option<&'a str>,
    body: Option<&'a str>,
    body_len: Option<u64>,
    body_sha256: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    raw_len: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    raw_sha256: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    charge: Option<Charge>,
}

/// The record as JSON without its closing brace, as `Head::seal` takes it.
pub(super) fn open_line(record: &Record<'_>, stamp: &Stamp<'_>) -> serde_json::Result<String> {
    let mut text = serde_json::to_string(&Line {
        v: AUDIT_VERSION,
        seq: stamp.seq,
        ts: stamp.time,
        boot: stamp.boot,
        kind: stamp.kind,
        prev: stamp.prev,
        intent: record.intent,
        outcome: record.outcome,
        session: record.session,
        call: record.call,
        model_call: record.model_call,
        tool: record.tool,
        label: record.label,
        grant: record.grant,
        decision: record.decision,
        reason: record.reason,
        walk: record.walk,
        arguments_sha256: record.arguments_sha256,
        body: record.body.filter(|_| stamp.is_inline),
        body_len: record.body.map(|body| body.len() as u64),
        body_sha256: stamp.body_sha256,
        raw_len: record.raw.as_ref().map(|raw| raw.bytes),
        raw_sha256: record.raw.as_ref().map(|raw| raw.sha256.as_str()),
        charge: record.charge,
    })?;
    text.pop();
    Ok(text)
}
