//! `search_files`: lines that contain a text, over files of the workspace.

mod hits;
mod scan;

use super::output::{Output, ToolError};
use super::place::RelativePath;
use super::registry::{Done, Run};
use super::workspaces::{Opened, Root};
use bxcore::label::Label;
use hits::Hits;
use scan::Scan;
use serde::Deserialize;
use serde_json::{Value, json};

pub(super) const DESCRIPTION: &str = "Search the files in the workspace for a piece of text. Gives \
    path, line number and line of each hit.";

/// The most hits that can be asked for.
const MAX_HITS: usize = 500;
/// The hits that are given if nothing is asked for.
const DEFAULT_HITS: usize = 50;

pub(super) fn parameters() -> Value {
    json!({
        "type": "object",
        "properties": {
            "pattern": {
                "type": "string", "minLength": 1, "maxLength": 500,
                "description": "Text to look for, as it is (not a regular expression)"
            },
            "path": {"type": "string", "description": "File or folder to search; default . (all)"},
            "max_hits": {"type": "integer", "minimum": 1, "maximum": MAX_HITS},
            "case_sensitive": {"type": "boolean", "description": "default false"}
        },
        "required": ["pattern"],
        "additionalProperties": false
    })
}

#[derive(Deserialize)]
struct Arguments {
    pattern: String,
    path: Option<String>,
    max_hits: Option<usize>,
    #[serde(default)]
    case_sensitive: bool,
}

pub(super) fn run(run: &Run<'_>) -> Done {
    let own = run.view.own_root().label;
    let arguments: Arguments = super::output::arguments(run.arguments, own)?;
    let path = arguments.path.as_deref().unwrap_or(".");
    let path = RelativePath::parse(path).map_err(|error| (error, own))?;
    let max_hits = arguments.max_hits.unwrap_or(DEFAULT_HITS).min(MAX_HITS);
    let mut scan = Scan::new(
        Hits::new(&arguments.pattern, arguments.case_sensitive, max_hits),
        run.deadline,
    );
    let (root, below) = run.view.resolve(&path);
    let is_everything = path.is_top();
    // That there is no hit tells of the content just as a hit does.
    let label = if is_everything {
        run.view.whole_label()
    } else {
        root.label
    };
    scan.hide_at_top(
        run.view
            .owner_roots()
            .filter_map(|root| root.name.as_deref()),
    );
    search(&mut scan, &root, &below, label)?;
    if is_everything {
        for root in run.view.owner_roots() {
            search(&mut scan, root, &below, label)?;
        }
    }
    Ok(Output::ok(scan.finish().show(), label))
}

fn search(
    scan: &mut Scan,
    root: &Root,
    path: &RelativePath,
    label: Label,
) -> Result<(), (ToolError, Label)> {
    let shown = root.shown(path);
    match root.open(path).map_err(|error| (error, label))? {
        Opened::File { file, .. } => scan.file(file, &shown),
        Opened::Folder(folder) => scan.folder(folder, if shown == "." { "" } else { &shown }),
        Opened::Other(is) => return Err((ToolError::WrongKind { path: shown, is }, label)),
    }
    Ok(())
}
