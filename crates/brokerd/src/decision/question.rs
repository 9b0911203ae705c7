//! One question to the walk.

use super::arguments::{Arguments, Schema};
use super::facts::Facts;
use bxcore::grant::Grant;
use bxcore::guardrails::ToolRules;
use bxcore::label::Label;
use bxcore::tool::{ToolName, ToolSpec};

/// A tool as the walk sees it: what it says of itself, and its schema made ready.
#[derive(Debug)]
pub struct Judged {
    /// What it says of itself.
    pub spec: ToolSpec,
    /// Its schema.
    pub schema: Schema,
}

/// Everything that a decision depends on.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The name that was called.
    pub name: &'a ToolName,
    /// The tool of that name, if there is one.
    pub tool: Option<&'a ToolSpec>,
    /// The call's arguments.
    pub arguments: &'a Arguments,
    /// The label of the session that calls.
    pub label: Label,
    /// Its tool rules, narrowed by those of its ancestors.
    pub rules: &'a ToolRules,
    /// The owner's grants, in the order of the file.
    pub grants: &'a [Grant],
    /// What is known of the world.
    pub facts: &'a Facts,
}
