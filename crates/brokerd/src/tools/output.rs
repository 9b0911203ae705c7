//! What a tool gives back.

use crate::sandbox::SandboxError;
use bxcore::code::Code;
use bxcore::label::Label;
use bxcore::usage::Charge;
use std::io;

/// What a tool gives back: the text for the model, and the label of what it read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// How it ended: nothing if well, else why not.
    pub failure: Option<Code>,
    /// What the model reads, before it is capped and neutralised. Of a failure: what went wrong.
    pub text: String,
    /// The label of everything that the text may tell of.
    pub label: Label,
    /// Whether a link lay on the way to what was read, so that it may be any file of its folder.
    pub through_link: bool,
    /// What it cost, where it costs money.
    pub charge: Option<Charge>,
}

impl Output {
    /// A result.
    pub fn ok(text: String, label: Label) -> Self {
        Self {
            failure: None,
            text,
            label,
            through_link: false,
            charge: None,
        }
    }

    /// A failure. Its text tells of what is there and what is not, so it has a label too.
    pub fn failed(error: &ToolError, label: Label) -> Self {
        Self {
            failure: Some(error.code()),
            text: error.to_string(),
            label,
            through_link: false,
            charge: None,
        }
    }
}

/// Why a tool failed. The text is for a model: it says what to do instead.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The path is not one within the workspace.
    #[error(
        "`{path}` is not a path in the workspace: {why}. Paths are relative to the workspace, such as `notes/a.txt`."
    )]
    Outside {
        /// The path as it was given, shortened.
        path: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// There is nothing at the path.
    #[error("`{0}` does not exist. list_dir shows what does.")]
    Missing(String),
    /// What is there is of another kind.
    #[error("`{path}` is {is}.")]
    WrongKind {
        /// The path.
        path: String,
        /// What it is, and what to do.
        is: &'static str,
    },
    /// The system refused.
    #[error("`{path}` can't be read: {source}")]
    System {
        /// The path.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// A file that was to be made is there.
    #[error("`{0}` exists already. Use mode `replace` or `append`, or another name.")]
    Exists(String),
    /// Nothing may be written there.
    #[error("`{0}` is in a folder of the owner's that is only to be read.")]
    ReadOnly(String),
    /// The file would be too long.
    #[error("`{path}` would be longer than {max_bytes} bytes.")]
    TooLong {
        /// The path.
        path: String,
        /// The limit.
        max_bytes: u64,
    },
    /// The system refused to write.
    #[error("`{path}` can't be written: {source}")]
    Write {
        /// The path.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// The command was not run.
    #[error("the command was not run: {0}")]
    Sandbox(#[from] SandboxError),
    /// The arguments can't be read after all.
    #[error("the arguments can't be used: {0}")]
    Arguments(String),
    /// It took too long.
    #[error("the tool took longer than {secs} s and was given up")]
    TimedOut {
        /// The limit.
        secs: u64,
    },
    /// It ended without a result: a fault of the program.
    #[error("the tool ended without a result")]
    Crashed,
}

impl ToolError {
    /// The runbook code.
    pub fn code(&self) -> Code {
        match self {
            Self::Outside { .. } => Code::PathOutsideWorkspace,
            Self::Arguments(_) => Code::InvalidArguments,
            Self::Sandbox(error) => error.code(),
            Self::Write { source, .. } => bxkit::fsx::code_for(source, Code::ToolFailed),
            _ => Code::ToolFailed,
        }
    }
}

/// Reads arguments that were checked against the schema already.
pub(super) fn arguments<T: serde::de::DeserializeOwned>(
    checked: &serde_json::Value,
    label: Label,
) -> Result<T, (ToolError, Label)> {
    T::deserialize(checked).map_err(|error| {
        // Schema and type disagree: a fault of the program, or a number past the type's range.
        (ToolError::Arguments(error.to_string()), label)
    })
}
