//! What can be wrong with a request, in words for whoever reads the failed test.

use std::fmt;

/// The kind of a protocol breach, to tolerate or to count it by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BreachKind {
    /// The body is not one JSON object.
    NotJson,
    /// A key stands twice in one object.
    DuplicateKey,
    /// A field that the server's dialect does not have, or that nobody may send.
    UnknownField,
    /// A field whose value is of the wrong type or out of range.
    FieldRange,
    /// A required field is absent.
    FieldAbsent,
    /// The messages are not a conversation: roles, contents, order.
    Messages,
    /// A tool call without its one result, or a result without its call.
    Pairing,
    /// Arguments of a tool call in the history that are not a JSON object.
    Arguments,
    /// The messages do not extend the conversation's previous request byte for byte.
    Prefix,
    /// A field that has to stay the same within an epoch changed.
    Frozen,
    /// No `id_slot` on a server that has slots.
    SlotAbsent,
    /// An `id_slot` that the server does not have.
    SlotMissing,
    /// An `id_slot` that is still at work for another request.
    SlotBusy,
    /// More requests at once than the server was announced to take.
    Concurrency,
    /// The test's script has no reply for this request.
    Unscripted,
}

/// One breach: which request, what kind, and the values that matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Breach {
    /// The request's place in order of arrival, from 0.
    pub seq: usize,
    /// What kind of breach.
    pub kind: BreachKind,
    /// What exactly is wrong.
    pub detail: String,
}

impl Breach {
    /// A breach by request `seq`.
    pub fn new(seq: usize, kind: BreachKind, detail: impl Into<String>) -> Self {
        Self {
            seq,
            kind,
            detail: detail.into(),
        }
    }
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "request {}: {:?}: {}", self.seq, self.kind, self.detail)
    }
}

/// A list of breaches, one a line.
#[derive(Debug, Clone, Copy)]
pub struct Breaches<'a>(pub &'a [Breach]);

impl fmt::Display for Breaches<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for breach in self.0 {
            writeln!(f, "  {breach}")?;
        }
        Ok(())
    }
}
