//! The tool by which a turn has a helper work: loopd runs it, and brokerd asks the owner where the rules
//! want that.

use crate::id::SessionId;
use crate::label::Label;
use crate::money::MicroUsd;
use crate::transcript::TurnOutcome;
use crate::usage::Usage;
use serde_json::{Value, json};
use std::fmt;

/// The tool's name.
pub const SUBAGENT: &str = "subagent";

/// What the tool takes, as JSON Schema.
pub fn subagent_parameters() -> Value {
    json!({
        "type": "object",
        "properties": {"task": {"type": "string", "minLength": 1, "description": "The whole task."}},
        "required": ["task"],
        "additionalProperties": false
    })
}

/// How much of a transcript's hash a receipt tells, in hex digits: a model reads it, too.
const SHOWN_HASH_CHARS: usize = 16;

/// One line on a helper: who it was, how it ended, what it took, and what its transcript is. It is the
/// first line of what its parent's model reads, and so in the parent's transcript for good.
#[derive(Debug, Clone, Copy)]
pub struct Receipt<'a> {
    /// The helper's session.
    pub child: &'a SessionId,
    /// How its turn ended.
    pub outcome: TurnOutcome,
    /// Its label at the end.
    pub label: Label,
    /// What it used itself.
    pub usage: Usage,
    /// What it cost itself.
    pub cost: MicroUsd,
    /// The SHA-256 of its whole transcript as hex; none where it has no end.
    pub log_sha256: Option<&'a str>,
}

impl fmt::Display for Receipt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Usage {
            model_calls,
            prompt_tokens,
            completion_tokens,
            ..
        } = self.usage;
        write!(
            f,
            "[{} {} · {} · {model_calls} model calls, {prompt_tokens} tokens read, \
             {completion_tokens} written · ${}",
            self.child,
            self.outcome.name(),
            self.label,
            self.cost
        )?;
        if let Some(hash) = self
            .log_sha256
            .and_then(|hash| hash.get(..SHOWN_HASH_CHARS))
        {
            write!(f, " · log {hash}")?;
        }
        f.write_str("]")
    }
}
