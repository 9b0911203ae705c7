//! The supervisor: starts every role as a process of its own, starts it again when it dies, and
//! stops all of them.
//!
//! What to do is decided in [`machine`], which is pure; [`shell`] does it.

mod background;
mod backoff;
mod engine;
mod http;
mod idle;
mod lock;
mod logs;
mod machine;
mod notify;
mod part;
mod presence;
mod process;
mod relay;
mod shell;
mod up;

pub use background::start_background;
pub(crate) use process::own_executable;
pub use up::up;
