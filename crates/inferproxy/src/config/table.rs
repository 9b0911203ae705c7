//! The tables of `inferproxy.toml` as they are written. What types can't say is in `check`.

use bxcore::id::BackendName;
use bxcore::wire::inferproxy::BackendKind;
use serde::Deserialize;

/// The whole file. Every key has a default, so that no file at all is a valid one.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// How long a server may be silent before a call is given up, in seconds.
    pub liveness_s: u64,
    /// Whether each request body is appended to a file, byte for byte.
    pub wire_dump: bool,
    /// The servers, in order of preference. With none, the usual loopback ports are looked at.
    pub backend: Vec<BackendTable>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            liveness_s: 120,
            wire_dump: false,
            backend: Vec::new(),
        }
    }
}

/// One `[[backend]]`: a model server on this box or in the owner's network.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackendTable {
    /// How everything else refers to it.
    pub name: BackendName,
    /// Its base address, `http://HOST:PORT`; a `/v1` at the end is accepted and dropped.
    pub url: String,
    /// What kind of server it is.
    pub kind: BackendKind,
    /// What its slots are for; without it the last slot is for background work.
    pub slots: Option<SlotsTable>,
    /// Slots set apart for the seats of a council; where there are none, seats use the background slot.
    #[serde(default)]
    pub seats: Vec<u32>,
    /// How its model is made to call tools.
    #[serde(default)]
    pub tools: ToolsSetting,
    /// How many requests a server without slots takes at once; 4 unless set.
    pub max_concurrency: Option<u32>,
    /// The model's name, for a server that has several; else the first that it lists.
    pub model: Option<String>,
}

/// `slots = { main = [0], background = 2 }`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlotsTable {
    /// For live turns.
    pub main: Vec<u32>,
    /// For everything else; on a server with a single slot the main one.
    pub background: u32,
}

/// How a model is made to call tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolsSetting {
    /// Ask the server what its template can do.
    #[default]
    Auto,
    /// The server's own tool calls.
    Native,
    /// Replies held to a JSON schema.
    Schema,
}
