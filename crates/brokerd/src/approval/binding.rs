//! What an approval is bound to. Whatever of it changes before the call begins makes it void.

use crate::ledger::{Spot, StoredApproval};
use bxcore::id::{CallId, SessionId};
use bxcore::label::Label;
use bxcore::tool::ToolName;
use serde::Serialize;
use serde_json::Value;

/// Everything that the owner agrees to. The eighth thing is the approval's own id, which the
/// ledger holds beside it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Binding {
    /// The tool.
    pub tool: ToolName,
    /// The hash of what the owner trusts of it, where somebody else wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trusted: Option<String>,
    /// The exact bytes of its arguments.
    pub arguments: String,
    /// The exact bytes that would leave the box, where they are others than the arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// What the arguments stand for: the places that would be read.
    pub reads: Vec<Spot>,
    /// The places that would be written.
    pub writes: Vec<Spot>,
    /// The session.
    pub session: SessionId,
    /// Its number for the call.
    pub call: CallId,
    /// The label that the call is judged by.
    pub label: Label,
    /// The host that would be reached.
    pub destination: Option<String>,
    /// The grant that it runs under, counted from 1.
    pub grant: Option<usize>,
    /// The rule that asks, as it is disclosed.
    pub rule: String,
}

impl Binding {
    /// Whether an approval was asked for the same tool and the same bytes: a session's number for a
    /// call is used for one call.
    pub fn is_same_call(&self, held: &StoredApproval) -> bool {
        let bound: Value = serde_json::from_str(&held.binding).unwrap_or_default();
        held.tool == self.tool && bound["arguments"].as_str() == Some(&self.arguments)
    }

    /// The binding as it is kept; two are the same if and only if these texts are.
    pub fn to_text(&self) -> String {
        // Strings, numbers and booleans can always be written; an empty text is the same as none.
        serde_json::to_string(self).unwrap_or_default()
    }
}
