//! What may be asked of memory files: changes for sessions, lists, the baseline. Blocks.

mod baseline;
mod change;
mod news;

pub use baseline::{DEFAULT_BASELINE_BYTES, baseline};
pub use change::change;
pub use news::news;
