//! `[[workspace]]`: a folder of the owner's that tools may read.

use bxcore::label::{Class, Label};
use serde::Deserialize;
use std::path::PathBuf;

/// The longest name of a workspace, in bytes.
pub const MAX_WORKSPACE_NAME_BYTES: usize = 64;

/// A folder of the owner's that tools may read.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workspace {
    /// The folder: an absolute path.
    pub path: PathBuf,
    /// The name under which tools see it, as the first part of a path; the folder's own name if
    /// left out.
    #[serde(default)]
    pub name: Option<String>,
    /// The class of what is in it; private if left out.
    #[serde(default = "private")]
    pub class: Class,
    /// Whether somebody else may have written what is in it; no if left out.
    #[serde(default)]
    pub untrusted: bool,
    /// Whether `write_file` may write in it; no if left out. Commands only ever read it.
    #[serde(default)]
    pub writable: bool,
}

const fn private() -> Class {
    Class::Private
}

impl Workspace {
    /// The name under which tools see it, if it has a usable one.
    pub fn visible_name(&self) -> Option<&str> {
        let own = || self.path.file_name().and_then(|name| name.to_str());
        let name = self.name.as_deref().or_else(own)?;
        is_usable(name).then_some(name)
    }

    /// What everything that is read in it carries.
    pub fn label(&self) -> Label {
        Label::new(self.class, self.untrusted)
    }
}

fn is_usable(name: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    let is_dots = name.bytes().all(|b| b == b'.');
    (1..=MAX_WORKSPACE_NAME_BYTES).contains(&name.len()) && name.bytes().all(allowed) && !is_dots
}
