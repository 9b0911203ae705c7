//! Tools as a turn sees them: the core tools array, what is found beyond it, and where a call goes.
//!
//! Pure: nothing here runs a tool of brokerd's, reads a clock or decides what is allowed.

mod call;
mod catalog;
mod core;
mod own;
mod rank;

pub use call::{Routed, Target, route, sanitised_name};
pub use catalog::Catalog;
pub use core::{CALL_TOOL, CORE_TOOLS, CoreTool, FIND_TOOL, core_array, core_tool};
pub use own::{OwnEnv, OwnTool, run, time_line};
