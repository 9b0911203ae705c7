//! What a process says about its work: lines on standard error.

use std::io::{IsTerminal, Write};
use tracing_subscriber::EnvFilter;

/// The environment variable that sets what is logged, in the syntax of `RUST_LOG`.
pub const LOG_VARIABLE: &str = "BOXMAKER_LOG";

/// Sends logs to standard error; `default` is used where [`LOG_VARIABLE`] is unset or wrong.
///
/// A second call changes nothing.
pub fn init_logging(default: &str) {
    let wanted = std::env::var(LOG_VARIABLE)
        .ok()
        .filter(|text| !text.is_empty());
    let parsed = wanted.as_deref().map(EnvFilter::try_new);
    let wrong = matches!(parsed, Some(Err(_)));
    let filter = match parsed {
        Some(Ok(filter)) => filter,
        _ => EnvFilter::new(default),
    };
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        // Its way to complain of a log that can't be written is a panic.
        .log_internal_errors(false)
        .finish();
    // Fails where a test or an embedding program has set its own.
    let first = tracing::subscriber::set_global_default(subscriber).is_ok();
    if wrong && first {
        tracing::warn!("{LOG_VARIABLE} can't be understood and is ignored");
    }
}

/// Writes text for a person to standard error.
pub fn print_error(text: &str) {
    // With nobody to read it there is nobody to tell either.
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}
