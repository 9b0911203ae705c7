//! What the supervisor answers on its own socket.
//!
//! | route | takes | gives |
//! |---|---|---|
//! | `GET /v1/status` | | [`Status`] |
//! | `POST /v1/down` | | |
//! | `POST /v1/leave` | | `bool`: whether it leaves, which it does unless others than the caller are attached |
//! | `POST /v1/roles/{role}/restart` | | |
//! | `GET /v1/attach` | | server-sent events, none but keep-alives: while somebody listens, a background supervisor stays; refused while it leaves |
//! | `POST /v1/starter` | | starts the installed starter engine; [`Status`] |

use crate::problem::Problem;
use crate::role::Role;
use serde::{Deserialize, Serialize};

/// How the supervisor was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lifetime {
    /// By `boxmaker up`: until it is stopped.
    Foreground,
    /// By `ask`, `chat` or `run`: until nothing happened for a while.
    Background,
}

/// What a process is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProcessState {
    /// It was started and does not answer yet.
    Starting,
    /// It answers.
    Ready,
    /// It lives and does not answer any more; if that lasts, it is killed and started again.
    Silent,
    /// It died and is started again after a pause.
    BackingOff,
    /// It is stopped.
    Stopped,
}

/// One process of the supervisor's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoleStatus {
    /// Its role.
    pub role: Role,
    /// Its process id, while it has one.
    pub pid: Option<u32>,
    /// What it is doing.
    pub state: ProcessState,
    /// How often it was started again.
    pub restarts: u32,
    /// Why it last died.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_exit: Option<String>,
    /// What confines it, as it reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confinement: Option<String>,
}

/// The whole house.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The supervisor's process id.
    pub pid: u32,
    /// The version of the executable.
    pub version: String,
    /// How it was started.
    pub lifetime: Lifetime,
    /// The home folder or configuration folder.
    pub home: String,
    /// The roles.
    pub roles: Vec<RoleStatus>,
    /// The starter engine, when it is used.
    pub starter: Option<ProcessState>,
    /// For how long it is up, in milliseconds.
    pub up_ms: u64,
    /// Why everything is being stopped, where that is because a role can't run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
}
