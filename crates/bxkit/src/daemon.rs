//! The shell around every role: keys, socket, confinement, runtime, signals, end.

mod context;
mod fatal;
mod logging;
mod shell;
mod signals;
mod tasks;

pub use context::{Context, Prelude, Prepared, Reload};
pub use fatal::{Fatal, FatalSwitch};
pub use logging::{LOG_VARIABLE, init_logging, print_error};
pub use shell::{
    LIFELINE_GRACE_SECS, MAIN_GRACE_SECS, MAX_BLOCKING_THREADS, MAX_DESCRIPTORS,
    RUNTIME_GRACE_SECS, WORKER_THREADS, run,
};
pub use tasks::Tasks;
