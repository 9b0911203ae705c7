//! Which tools there are.

use super::output::Output;
use super::place::RelativePath;
use super::touch::{Places, Touch};
use super::workspaces::View;
use super::{list_dir, read_file, search_files, shell, write_file};
use crate::consult::{self, CONSULT};
use crate::decision::{Judged, Schema, SchemaError};
use crate::fetch::{self, HTTP_FETCH};
use crate::memory;
use crate::sandbox::{COMMAND_OVERHEAD_SECS, Sandbox};
use bxcore::delegation::{SUBAGENT, subagent_parameters};
use bxcore::id::SessionId;
use bxcore::label::Label;
use bxcore::memory::{
    ASK_MEMORY, MEMORY, RECALL, ask_memory_parameters, memory_parameters, recall_parameters,
};
use bxcore::money::MicroUsd;
use bxcore::tool::{Repeat, RiskTag, ToolName, ToolSpec};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a tool runs with.
#[derive(Debug)]
pub struct Run<'a> {
    /// Arguments that fit its schema.
    pub arguments: &'a Value,
    /// The session that calls.
    pub session: &'a SessionId,
    /// The label that the call was judged by.
    pub label: Label,
    /// The folders that the session sees.
    pub view: &'a View,
    /// What runs commands.
    pub sandbox: &'a Sandbox,
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
    WriteFile,
    Shell,
    /// memoryd does it.
    Notes,
    /// It is no work of this box: brokerd asks somebody else.
    Elsewhere,
    /// An MCP server does it, in the session's own folder.
    InWorkspace,
    /// loopd does it, once it may.
    Delegate,
}

/// How long a tool may take before its call is given up, where it does not say otherwise.
pub const TOOL_TIMEOUT_SECS: u64 = 30;

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
            reserve: None,
        };
        Ok(Self {
            judged: Judged { spec, schema },
            action,
        })
    }

    /// The same with an effect that nothing can be harmed by: it needs no grant.
    fn lasting(mut self) -> Self {
        self.judged.spec.repeat = Repeat::Never;
        self
    }

    /// A tool of an MCP server.
    pub fn served(judged: Judged) -> Self {
        let action = if judged.spec.tags.contains(&RiskTag::Write) {
            Action::InWorkspace
        } else {
            Action::Elsewhere
        };
        Self { judged, action }
    }

    /// The same with these risks. What has an effect is not made again by itself.
    fn risking(mut self, tags: &[RiskTag]) -> Self {
        self.judged.spec.tags = tags.iter().copied().collect();
        self.judged.spec.repeat = Repeat::Never;
        self
    }

    /// Whether a call with this text as its arguments may be made again after a crash.
    pub fn may_repeat(&self, arguments: &str) -> bool {
        match self.action {
            Action::WriteFile => write_file::may_repeat(arguments),
            Action::Notes => memory::may_repeat(arguments),
            _ => self.spec().repeat == Repeat::Safe,
        }
    }

    /// Whether its results are untrusted where the grant does not say. What only acknowledges
    /// tells of nothing.
    pub fn is_untrusted_by_default(&self) -> bool {
        !matches!(self.action, Action::WriteFile)
    }

    /// How long a call may take before it is given up.
    pub fn limit(&self, arguments: &Value) -> Duration {
        Duration::from_secs(match self.action {
            Action::Shell => shell::timeout_secs(arguments) + COMMAND_OVERHEAD_SECS,
            _ => TOOL_TIMEOUT_SECS,
        })
    }

    /// What a call of a session with this label reads and writes.
    pub fn touch(
        &self,
        arguments: &Value,
        session: &SessionId,
        label: Label,
        places: &Places,
    ) -> Touch {
        let path = named_path(arguments).unwrap_or_else(RelativePath::top);
        let spot = |below| vec![places.spot(session, &path, below)];
        match self.action {
            Action::ReadFile => Touch {
                reads: spot(false),
                writes: Vec::new(),
            },
            // Searching from the top is searching all folders; listing it is not.
            Action::SearchFiles if path.is_top() => Touch {
                reads: places.up_to(session, Label::TOP),
                writes: Vec::new(),
            },
            Action::ListDir | Action::SearchFiles => Touch {
                reads: spot(true),
                writes: Vec::new(),
            },
            Action::WriteFile => Touch {
                reads: if write_file::tells_of_file(arguments) {
                    spot(false)
                } else {
                    Vec::new()
                },
                writes: spot(false),
            },
            Action::Notes | Action::Elsewhere | Action::Delegate => Touch::default(),
            Action::InWorkspace => {
                let own = vec![places.spot(session, &RelativePath::top(), true)];
                Touch {
                    reads: own.clone(),
                    writes: own,
                }
            }
            Action::Shell => {
                let reads = places.up_to(session, label);
                // The first is the session's own folder; the owner's are only read.
                let writes = reads.iter().take(1).cloned().collect();
                Touch { reads, writes }
            }
        }
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
            Action::WriteFile => write_file::run(run),
            Action::Shell => shell::run(run),
            Action::Delegate => Ok(Output::ok("It may begin.".to_owned(), run.label)),
            Action::Notes | Action::Elsewhere | Action::InWorkspace => {
                Err((super::ToolError::Crashed, run.label))
            }
        };
        let output = match done {
            Ok(output) => output,
            Err((error, label)) => Output::failed(&error, label),
        };
        let through_link = named_path(run.arguments).is_some_and(|path| {
            let (root, path) = run.view.resolve(&path);
            root.passes_link(&path)
        });
        Output {
            through_link,
            ..output
        }
    }
}

/// The `path` among a tool's arguments, if there is one.
fn named_path(arguments: &Value) -> Option<RelativePath> {
    RelativePath::parse(arguments.get("path")?.as_str()?).ok()
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
            Tool::new(
                "write_file",
                write_file::DESCRIPTION,
                write_file::parameters(),
                Action::WriteFile,
            )?
            .risking(&[RiskTag::Write]),
            Tool::new(
                "shell",
                shell::DESCRIPTION,
                shell::parameters(),
                Action::Shell,
            )?
            .risking(&[RiskTag::Exec, RiskTag::Write]),
            Tool::new(
                RECALL,
                memory::RECALL_DESCRIPTION,
                recall_parameters(),
                Action::Elsewhere,
            )?,
            Tool::new(
                MEMORY,
                memory::MEMORY_DESCRIPTION,
                memory_parameters(),
                Action::Notes,
            )?
            .lasting(),
            Tool::new(
                ASK_MEMORY,
                memory::ASK_MEMORY_DESCRIPTION,
                ask_memory_parameters(),
                Action::Elsewhere,
            )?,
            Tool::new(
                CONSULT,
                consult::DESCRIPTION,
                consult::parameters(),
                Action::Elsewhere,
            )?
            .risking(&[RiskTag::Network, RiskTag::Egress, RiskTag::Spend]),
            Tool::new(
                HTTP_FETCH,
                fetch::DESCRIPTION,
                fetch::parameters(),
                Action::Elsewhere,
            )?
            .risking(&[RiskTag::Network, RiskTag::Egress]),
            Tool::new(
                SUBAGENT,
                "Has a helper work on a task.",
                subagent_parameters(),
                Action::Delegate,
            )?,
        ];
        let named = tools.map(|tool| (tool.spec().name.clone(), Arc::new(tool)));
        Ok(Self {
            tools: Arc::new(named.into()),
        })
    }

    /// The same tools, with what must be set aside for a call of one.
    ///
    /// # Errors
    /// The tool's schema is wrong, which it was not before.
    pub fn with_reserve(&self, name: &str, reserve: MicroUsd) -> Result<Self, SchemaError> {
        let mut tools = BTreeMap::clone(&self.tools);
        for tool in tools.values_mut() {
            let spec = tool.spec();
            if spec.name.as_str() == name {
                let schema = Schema::new(&spec.parameters)?;
                let spec = ToolSpec {
                    reserve: Some(reserve),
                    ..spec.clone()
                };
                *tool = Arc::new(Tool {
                    judged: Judged { spec, schema },
                    action: tool.action,
                });
            }
        }
        Ok(Self {
            tools: Arc::new(tools),
        })
    }

    /// The same tools, with these in place of those that MCP servers had.
    pub fn with_served(&self, served: impl IntoIterator<Item = Tool>) -> Self {
        let own = self.tools.iter().filter(|(name, _)| name.mcp().is_none());
        let own = own.map(|(name, tool)| (name.clone(), Arc::clone(tool)));
        let served = served
            .into_iter()
            .map(|tool| (tool.spec().name.clone(), Arc::new(tool)));
        Self {
            tools: Arc::new(own.chain(served).collect()),
        }
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
