//! The file as a whole.

use super::workspace::Workspace;
use crate::approval;
use crate::consult::Settings;
use crate::mcp;
use crate::provider;
use bxcore::grant::Grant;
use bxcore::id::BackendName;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The most grants.
pub const MAX_GRANTS: usize = 1024;
/// The most workspaces of the owner.
pub const MAX_WORKSPACES: usize = 64;
/// The most providers.
pub const MAX_PROVIDERS: usize = 16;

/// The content of `brokerd.toml`. Without a file nothing is granted, and tools see the session's
/// own workspace alone.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// What may run that needs the owner's word, in order of preference.
    #[serde(default, rename = "grant")]
    pub grants: Vec<Grant>,
    /// Folders of the owner's that tools may read.
    #[serde(default, rename = "workspace")]
    pub workspaces: Vec<Workspace>,
    /// Whom the tool `consult` asks; nobody if left out.
    #[serde(default)]
    pub consult: Option<Settings>,
    /// Whether and how long the owner is asked.
    #[serde(default)]
    pub approvals: approval::Settings,
    /// Models elsewhere that may lead whole sessions.
    #[serde(default, rename = "provider")]
    pub providers: BTreeMap<BackendName, provider::Settings>,
    /// Servers of tools.
    #[serde(default)]
    pub mcp: Vec<mcp::Settings>,
}
