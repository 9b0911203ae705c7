//! What every reader of the log needs of a record.

use serde::Deserialize;
use std::borrow::Cow;

/// The members of a record by which the log is checked; all others are left alone.
#[derive(Debug, Clone, Deserialize)]
pub struct Record<'a> {
    /// Its number.
    pub seq: u64,
    /// What it records: a name of `bxcore::audit::Kind`, or one of a later version.
    #[serde(borrow)]
    pub kind: Cow<'a, str>,
    /// The last hash of the segment before, in the first line of a segment.
    #[serde(borrow, default)]
    pub prev: Option<Cow<'a, str>>,
    /// For an outcome: the number of its intent.
    #[serde(default)]
    pub intent: Option<u64>,
    /// The session, if it is about one.
    #[serde(borrow, default)]
    pub session: Option<Cow<'a, str>>,
    /// The session's number for the call.
    #[serde(default)]
    pub call: Option<u64>,
    /// The tool.
    #[serde(borrow, default)]
    pub tool: Option<Cow<'a, str>>,
    /// The SHA-256 of the call's arguments, as hex, where the body is something else.
    #[serde(borrow, default)]
    pub arguments_sha256: Option<Cow<'a, str>>,
    /// The exact bytes, unless they are in a payload file.
    #[serde(borrow, default)]
    pub body: Option<Cow<'a, str>>,
    /// The body's length in bytes.
    #[serde(default)]
    pub body_len: Option<u64>,
    /// The body's SHA-256 as hex, and the name of its payload file if it has one.
    #[serde(borrow, default)]
    pub body_sha256: Option<Cow<'a, str>>,
}
