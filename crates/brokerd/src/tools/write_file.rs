//! `write_file`: a file in the workspace, written whole or not at all.

use super::output::{Output, ToolError, arguments};
use super::place::RelativePath;
use super::registry::{Done, Run};
use super::workspaces::{Root, Target, WriteMode};
use bxcore::label::Label;
use serde::Deserialize;
use serde_json::{Value, json};

pub(super) const DESCRIPTION: &str = "Write a text file in the workspace; folders on its way are \
    made. `create` refuses a file that is there, `replace` puts the content in place of the old, \
    `append` adds it at the end.";

pub(super) fn parameters() -> Value {
    json!({
        "type": "object",
        "properties": {
            "path": {"type": "string", "minLength": 1, "description": "Path in the workspace, e.g. notes/a.txt"},
            "content": {"type": "string"},
            "mode": {"type": "string", "enum": ["create", "replace", "append"], "description": "default create"}
        },
        "required": ["path", "content"],
        "additionalProperties": false
    })
}

#[derive(Deserialize)]
struct Arguments {
    path: String,
    content: String,
    #[serde(default)]
    mode: WriteMode,
}

/// Whether the call of these arguments, made again, leaves what one call leaves: all but adding do.
pub(super) fn may_repeat(text: &str) -> bool {
    serde_json::from_str::<Arguments>(text)
        .is_ok_and(|arguments| arguments.mode != WriteMode::Append)
}

/// Whether the answer to these arguments tells of a file that is there: that it is, how long it is,
/// or whether it holds just that. Only replacing it tells nothing.
pub(super) fn tells_of_file(arguments: &Value) -> bool {
    arguments.get("mode").and_then(Value::as_str) != Some("replace")
}

pub(super) fn run(run: &Run<'_>) -> Done {
    let own = run.view.own_root().label;
    let arguments: Arguments = arguments(run.arguments, own)?;
    let path = RelativePath::parse(&arguments.path).map_err(|error| (error, own))?;
    let (root, path) = run.view.resolve(&path);
    let label = root.label;
    write(&root, &path, &arguments, label).map_err(|error| (error, label))
}

fn write(
    root: &Root,
    path: &RelativePath,
    arguments: &Arguments,
    label: Label,
) -> Result<Output, ToolError> {
    let shown = root.shown(path);
    if !root.writable {
        return Err(ToolError::ReadOnly(shown));
    }
    let target = Target::of(root, path)?;
    let content = arguments.content.as_bytes();
    let bytes = target.write(content, arguments.mode)?;
    let added = content.len();
    let text = match arguments.mode {
        WriteMode::Append => format!("Added {added} bytes to `{shown}`, which has {bytes} now."),
        WriteMode::Create | WriteMode::Replace => format!("Wrote {bytes} bytes to `{shown}`."),
    };
    Ok(Output::ok(text, label))
}
