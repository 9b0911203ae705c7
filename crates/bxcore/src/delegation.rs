//! The tool by which a turn has a helper work: loopd runs it, and brokerd asks the owner where the rules
//! want that.

use serde_json::{Value, json};

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
