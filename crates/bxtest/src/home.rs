//! A disposable home for the real executables: configuration, commands, children, and no leftovers.

mod bins;
mod child;
mod command;
mod config;
mod dir;
mod procs;

pub use bins::bin;
pub use child::Child;
pub use command::{Cmd, Output};
pub use config::BackendConfig;
pub use dir::TestHome;
