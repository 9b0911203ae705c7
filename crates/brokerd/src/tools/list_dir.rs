//! `list_dir`: what is in a folder of the workspace.

use super::output::{Output, ToolError};
use super::place::RelativePath;
use super::registry::{Done, Run};
use super::workspaces::{Opened, View};
use rustix::fs::{AtFlags, Dir, FileType};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::os::fd::{AsFd, OwnedFd};

pub(super) const DESCRIPTION: &str =
    "List the files and folders in a folder of the workspace, with their sizes.";

/// The most entries that are shown.
const MAX_SHOWN_ENTRIES: usize = 1000;
/// The most entries that are read; what is shown are the first of these by name.
const MAX_READ_ENTRIES: usize = 100_000;

pub(super) fn parameters() -> Value {
    json!({
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "Folder in the workspace; default . (all of it)"}
        },
        "additionalProperties": false
    })
}

#[derive(Deserialize)]
struct Arguments {
    #[serde(default = "top")]
    path: String,
}

fn top() -> String {
    ".".to_owned()
}

pub(super) fn run(run: &Run<'_>) -> Done {
    let own = run.view.own_root().label;
    let arguments: Arguments = super::output::arguments(run.arguments, own)?;
    let path = RelativePath::parse(&arguments.path).map_err(|error| (error, own))?;
    let (root, below) = run.view.resolve(&path);
    let label = root.label;
    let shown = root.shown(&below);
    let folder = match root.open(&below).map_err(|error| (error, label))? {
        Opened::Folder(folder) => folder,
        Opened::File { .. } => {
            let is = "a file, not a folder; read_file shows what is in it";
            return Err((ToolError::WrongKind { path: shown, is }, label));
        }
        Opened::Other(is) => return Err((ToolError::WrongKind { path: shown, is }, label)),
    };
    let mut listing = Listing::read(&folder).map_err(|source| {
        (
            ToolError::System {
                path: shown.clone(),
                source,
            },
            label,
        )
    })?;
    if path.is_top() {
        listing.add_owner_folders(run.view);
    }
    Ok(Output::ok(listing.show(&shown), label))
}

/// Names and what is said of each, sorted.
struct Listing {
    entries: BTreeMap<String, String>,
    is_cut: bool,
}

impl Listing {
    fn read(folder: &OwnedFd) -> std::io::Result<Self> {
        let mut listing = Self {
            entries: BTreeMap::new(),
            is_cut: false,
        };
        for entry in Dir::read_from(folder)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            if listing.entries.len() >= MAX_READ_ENTRIES {
                listing.is_cut = true;
                break;
            }
            let stat = rustix::fs::statat(folder.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW);
            // An entry that vanished since it was named is not there.
            let Ok(stat) = stat else { continue };
            let about = match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => "/".to_owned(),
                FileType::RegularFile => format!("  {} bytes", stat.st_size),
                FileType::Symlink => "  link".to_owned(),
                _ => "  neither file nor folder".to_owned(),
            };
            listing
                .entries
                .insert(one_line(&name.to_string_lossy()), about);
        }
        Ok(listing)
    }

    fn add_owner_folders(&mut self, view: &View) {
        for name in view.owner_roots().filter_map(|root| root.name.clone()) {
            self.entries.insert(name, "/".to_owned());
        }
    }

    fn show(&self, path: &str) -> String {
        if self.entries.is_empty() {
            return format!("[`{path}` is empty]");
        }
        let mut text = String::new();
        for (name, about) in self.entries.iter().take(MAX_SHOWN_ENTRIES) {
            // Writing to a String can't fail, hence the ignored result.
            let _ = writeln!(text, "{name}{about}");
        }
        let count = self.entries.len();
        if count > MAX_SHOWN_ENTRIES {
            let least = if self.is_cut { "at least " } else { "" };
            let _ = writeln!(
                text,
                "[{MAX_SHOWN_ENTRIES} of {least}{count} entries shown]"
            );
        }
        text
    }
}

/// A name that can't pass for several.
pub(super) fn one_line(name: &str) -> String {
    let escape = |c: char| {
        if c.is_control() {
            c.escape_default().to_string()
        } else {
            c.to_string()
        }
    };
    name.chars().map(escape).collect()
}
