//! Which tools there are.

use super::output::Output;
use super::workspaces::View;
use super::{list_dir, read_file, search_files};
use crate::decision::{Judged, Schema, SchemaError};
use bxcore::label::Label;
use bxcore::tool::{Repeat, ToolName, ToolSpec};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

/// What a tool runs with.
#[derive(Debug)]
pub struct Run<'a> {
    /// Arguments that fit its schema.
    pub arguments: &'a Value,
    /// The folders that the session sees.
    pub view: &'a View,
    /// How much of the text the model will see, in bytes.
    pub result_bytes: usize,
    /// When it must have ended.
    pub deadline: Instant,
}

/// A tool that runs here.
#[derive(Debug)]
pub struct Tool {
    /// What the decision needs of it.
    pub judged: Judged,
    /// What it does.
    action: Action,
}

#[derive(Debug, Clone, Copy)]
enum Action {
    ReadFile,
    ListDir,
    SearchFiles,
}

impl Tool {
    fn new(
        name: &'static str,
        description: &str,
        parameters: Value,
        action: Action,
    ) -> Result<Self, SchemaError> {
        let name = ToolName::new(name).map_err(|error| SchemaError::named(&error))?;
        let schema = Schema::new(&parameters)?;
        let spec = ToolSpec {
            name,
            description: description.to_owned(),
            parameters,
            tags: std::collections::BTreeSet::new(),
            repeat: Repeat::Safe,
        };
        Ok(Self {
            judged: Judged { spec, schema },
            action,
        })
    }

    /// What it says of itself.
    pub fn spec(&self) -> &ToolSpec {
        &self.judged.spec
    }

    /// Runs it; blocks.
    pub fn run(&self, run: &Run<'_>) -> Output {
        let done = match self.action {
            Action::ReadFile => read_file::run(run),
            Action::ListDir => list_dir::run(run),
            Action::SearchFiles => search_files::run(run),
        };
        match done {
            Ok(output) => output,
            Err((error, label)) => Output::failed(&error, label),
        }
    }
}

/// What a tool's `run` gives: an error carries the label of what it tells of.
pub(super) type Done = Result<Output, (super::ToolError, Label)>;

/// All tools, by name.
#[derive(Debug, Clone)]
pub struct Registry {
    tools: Arc<BTreeMap<ToolName, Arc<Tool>>>,
}

impl Registry {
    /// The tools of this version.
    pub fn new() -> Result<Self, SchemaError> {
        let tools = [
            Tool::new(
                "read_file",
                read_file::DESCRIPTION,
                read_file::parameters(),
                Action::ReadFile,
            )?,
            Tool::new(
                "list_dir",
                list_dir::DESCRIPTION,
                list_dir::parameters(),
                Action::ListDir,
            )?,
            Tool::new(
                "search_files",
                search_files::DESCRIPTION,
                search_files::parameters(),
                Action::SearchFiles,
            )?,
        ];
        let named = tools.map(|tool| (tool.spec().name.clone(), Arc::new(tool)));
        Ok(Self {
            tools: Arc::new(named.into()),
        })
    }

    /// The tool of a name.
    pub fn get(&self, name: &ToolName) -> Option<&Arc<Tool>> {
        self.tools.get(name)
    }

    /// What all tools say of themselves, by name.
    pub fn specs(&self) -> Vec<&ToolSpec> {
        self.tools.values().map(|tool| tool.spec()).collect()
    }
}
